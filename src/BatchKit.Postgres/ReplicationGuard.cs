using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Notices a commit for which the server stopped waiting for its synchronous standby. It watches one use of a connection.</summary>
/// <remarks>
/// When a statement is cancelled, or reaches <c>statement_timeout</c>, while its commit waits for the standby, the server ends the wait and reports success with a warning. Such a commit is lost if the standby is
/// promoted next.
/// </remarks>
internal sealed class ReplicationGuard : IDisposable
{
    // The function that warns, in PostgreSQL's syncrep.c. The warning's text is translated, and its code is the general one.
    private const string Routine = "SyncRepWaitForLSN";

    private readonly NpgsqlConnection _connection;
    private bool _isCut;

    public ReplicationGuard(NpgsqlConnection connection)
    {
        _connection = connection;
        connection.Notice += OnNotice;
    }

    /// <exception cref="NpgsqlException">A commit is on the primary only.</exception>
    /// <exception cref="OperationCanceledException">The token was cancelled, so the wait may have been ended on its behalf.</exception>
    public void ThrowIfCut(CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        if (_isCut)
            throw Detached.InSync(new NpgsqlException("The server stopped waiting for its synchronous standby: what was committed may be on the primary only."));
    }

    public void Dispose() => _connection.Notice -= OnNotice;

    private void OnNotice(object sender, NpgsqlNoticeEventArgs e) => _isCut |= string.Equals(e.Notice.Routine, Routine, StringComparison.Ordinal);
}

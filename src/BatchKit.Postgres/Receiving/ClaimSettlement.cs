using Npgsql;
using NpgsqlTypes;

namespace BatchKit.Postgres.Receiving;

/// <summary>The claims that one exchange settles: one statement for all claims whose messages are all completed, then one for each other claim, and at last for those that their handlers have settled.</summary>
internal readonly struct ClaimSettlement
{
    // As pg_xact_status has it (manual, table 9.82).
    private const string Committed = "committed";

    private readonly List<Claim> _done;
    private readonly List<Claim> _mixed;
    private readonly List<Claim> _left;

    /// <param name="settled">The claims.</param>
    /// <param name="isByHandler">Whether a handler settles them now.</param>
    public ClaimSettlement(IReadOnlyList<Claim> settled, bool isByHandler = false)
    {
        _done = new List<Claim>(settled.Count);
        _mixed = [];
        _left = [];
        foreach (var claim in settled)
            (claim.Transaction is not null && !isByHandler ? _left : IsDone(claim) ? _done : _mixed).Add(claim);
    }

    public static long[] TokensOf(IReadOnlyList<Claim> claims)
    {
        var tokens = new long[claims.Count];
        for (var index = 0; index < tokens.Length; index++)
            tokens[index] = claims[index].Token;
        return tokens;
    }

    /// <summary>Returns the claims whose tokens are not among the rows.</summary>
    public static async ValueTask<List<Claim>> ReadMissingAsync(NpgsqlDataReader reader, IEnumerable<Claim> claims, CancellationToken cancellationToken)
    {
        var found = new HashSet<long>();
        while (await reader.ReadAsync(cancellationToken).ConfigureAwait(false))
            found.Add(reader.GetInt64(0));
        return [.. claims.Where(claim => !found.Contains(claim.Token))];
    }

    public void AddTo(NpgsqlBatch batch, ClaimStatements statements, OutcomePolicy policy)
    {
        if (_done.Count > 0)
        {
            var command = new NpgsqlBatchCommand(statements.Done);
            command.Parameters.Add(new NpgsqlParameter<long[]> { TypedValue = TokensOf(_done) });
            batch.BatchCommands.Add(command);
        }

        foreach (var claim in _mixed)
            batch.BatchCommands.Add(Settle(statements.Mixed, claim, policy.Evaluate));
        foreach (var claim in _left)
        {
            var command = Settle(statements.Left, claim, policy.EvaluateUndone);
            command.Parameters.Add(new NpgsqlParameter<ulong> { TypedValue = claim.Transaction!.Id, NpgsqlDbType = NpgsqlDbType.Xid8 });
            batch.BatchCommands.Add(command);
        }
    }

    /// <summary>Reads the results of the commands that <see cref="AddTo"/> added, in the same order.</summary>
    /// <returns>The claims that had ended.</returns>
    public async ValueTask<IReadOnlyList<Claim>> ReadRefusedAsync(NpgsqlDataReader reader, CancellationToken cancellationToken)
    {
        List<Claim>? refused = null;
        if (_done.Count > 0)
        {
            await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
            refused = await ReadMissingAsync(reader, _done, cancellationToken).ConfigureAwait(false);
        }

        foreach (var claim in _mixed)
        {
            await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
            await reader.ReadAsync(cancellationToken).ConfigureAwait(false);
            if (reader.GetInt64(0) == 0)
                (refused ??= []).Add(claim);
        }

        foreach (var claim in _left)
        {
            await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
            await reader.ReadAsync(cancellationToken).ConfigureAwait(false);
            var isGone = reader.GetInt64(0) == 0;
            var isCommitted = isGone && !await reader.IsDBNullAsync(1, cancellationToken).ConfigureAwait(false) && reader.GetString(1) == Committed;
            claim.EndTransaction(isCommitted);
            if (isGone && !isCommitted)
                (refused ??= []).Add(claim);
        }

        return refused is { Count: > 0 } ? refused : [];
    }

    private static bool IsDone(Claim claim)
    {
        for (var index = 0; index < claim.Batch.Count; index++)
        {
            if (claim.Batch[index].Outcome is not (null or MessageOutcome.Done))
                return false;
        }

        return true;
    }

    private static NpgsqlBatchCommand Settle(string statement, Claim claim, Func<QueueMessage, Verdict> evaluate)
    {
        var count = claim.Batch.Count;
        var (ids, outcomes, errors, delays) = (new long[count], new short[count], new string?[count], new TimeSpan[count]);
        for (var index = 0; index < count; index++)
        {
            var verdict = evaluate(claim.Batch[index]);
            (ids[index], outcomes[index], errors[index], delays[index]) = (claim.Batch[index].Id, (short)verdict.Outcome, verdict.Error, verdict.Delay);
        }

        var command = new NpgsqlBatchCommand(statement);
        command.Parameters.Add(new NpgsqlParameter<long> { TypedValue = claim.Token });
        command.Parameters.Add(new NpgsqlParameter<long[]> { TypedValue = ids });
        command.Parameters.Add(new NpgsqlParameter<short[]> { TypedValue = outcomes });
        command.Parameters.Add(new NpgsqlParameter<string?[]> { TypedValue = errors });
        command.Parameters.Add(new NpgsqlParameter<TimeSpan[]> { TypedValue = delays });
        return command;
    }
}

/// <summary>Tells the claims that a lost attempt of an exchange settled from those that had ended.</summary>
internal static class RepeatedSettlement
{
    /// <summary>Returns those of the refused claims whose messages wait or are claimed as before. The others were settled by the attempt whose answer was lost.</summary>
    /// <param name="connection">The connection.</param>
    /// <param name="refused">Claims that a repeated exchange did not find.</param>
    /// <param name="unsettled">Creates the command that looks for messages of a claim.</param>
    /// <param name="cancellationToken">Cancels the statement.</param>
    public static async Task<IReadOnlyList<Claim>> FindLostAsync(
        NpgsqlConnection connection, IReadOnlyList<Claim> refused, Func<Claim, long[], NpgsqlBatchCommand> unsettled, CancellationToken cancellationToken)
    {
        var lost = new List<Claim>(refused.Count);
        foreach (var claim in refused)
        {
            // Messages that were given back wait as before either way.
            long[] ids = [.. claim.Batch.Where(static message => message.Outcome is not MessageOutcome.Released).Select(static message => message.Id)];
            if (ids.Length > 0 && await IsAnyAsync(connection, unsettled(claim, ids), cancellationToken).ConfigureAwait(false))
                lost.Add(claim);
        }

        return lost;
    }

    private static async Task<bool> IsAnyAsync(NpgsqlConnection connection, NpgsqlBatchCommand unsettled, CancellationToken cancellationToken)
    {
        var batch = new NpgsqlBatch(connection) { BatchCommands = { unsettled } };
        await using (batch.ConfigureAwait(false))
            return await batch.ExecuteScalarAsync(cancellationToken).ConfigureAwait(false) is true;
    }
}

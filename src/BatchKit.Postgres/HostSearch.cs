using System.Collections.Concurrent;
using System.Diagnostics.CodeAnalysis;
using System.Runtime.CompilerServices;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Opens connections to that one of several hosts that takes writes. A search that its caller gave up goes on, and the next caller continues it.</summary>
/// <remarks>
/// Npgsql asks the hosts in their order. A host that answers nothing holds it up for the connection string's <c>Timeout</c>, which may be longer than the caller waits, and since 10.0.3 the next search
/// begins with that host again: callers that each began a search of their own would never reach the host behind it.
/// </remarks>
internal sealed class HostSearch(NpgsqlMultiHostDataSource hosts)
{
    // Long enough for the next attempt of a transport, which pauses for less.
    private static readonly TimeSpan Kept = TimeSpan.FromSeconds(5);
    private static readonly ConditionalWeakTable<NpgsqlMultiHostDataSource, HostSearch> Searches = [];

    private readonly ConcurrentQueue<Search> _givenUp = [];

    public static HostSearch Of(NpgsqlMultiHostDataSource hosts) => Searches.GetValue(hosts, static hosts => new HostSearch(hosts));

    public async Task<NpgsqlConnection> OpenAsync(CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        if (!TryTakeGivenUp(out var opening))
            opening = hosts.OpenConnectionAsync(TargetSessionAttributes.ReadWrite, CancellationToken.None).AsTask();
        try
        {
            return await opening.WaitAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (cancellationToken.IsCancellationRequested)
        {
            var search = new Search(opening);
            _givenUp.Enqueue(search);
            _ = EndAsync(search);
            throw;
        }
    }

    private bool TryTakeGivenUp([NotNullWhen(true)] out Task<NpgsqlConnection>? opening)
    {
        while (_givenUp.TryDequeue(out var search))
        {
            opening = search.Opening;
            // One that has failed says nothing of now.
            if (search.TryTake() && !opening.IsFaulted)
                return true;
        }

        opening = null;
        return false;
    }

    // Returns the connection that no one came for.
    private static async Task EndAsync(Search search)
    {
        try
        {
            var connection = await search.Opening.ConfigureAwait(false);
            await Task.Delay(Kept, TimeProvider.System).ConfigureAwait(false);
            if (search.TryTake())
                await connection.DisposeAsync().ConfigureAwait(false);
        }
        catch (Exception)
        {
            // The next search reports what is wrong.
        }
    }

    private sealed class Search(Task<NpgsqlConnection> opening)
    {
        private int _taken;

        public Task<NpgsqlConnection> Opening => opening;

        public bool TryTake() => Interlocked.Exchange(ref _taken, 1) == 0;
    }
}

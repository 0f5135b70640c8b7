using System.Transactions;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Opens connections and starts loops that take nothing from their caller's surroundings: no ambient transaction, no culture, no activity and no other value of its execution context.</summary>
internal static class Detached
{
    /// <summary>Opens a connection that takes no part in an ambient transaction, whatever the connection string's <c>Enlist</c> says.</summary>
    public static async ValueTask<NpgsqlConnection> OpenAsync(NpgsqlDataSource dataSource, CancellationToken cancellationToken)
    {
        using var alone = new TransactionScope(TransactionScopeOption.Suppress, TransactionScopeAsyncFlowOption.Enabled);
        return await dataSource.OpenConnectionAsync(cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Starts a loop on the thread pool.</summary>
    public static Task Run(Func<Task> loop)
    {
        if (ExecutionContext.IsFlowSuppressed())
            return Task.Run(loop);
        using (ExecutionContext.SuppressFlow())
            return Task.Run(loop);
    }

    /// <summary>Creates a timer that is not set.</summary>
    public static ITimer CreateTimer(TimeProvider timeProvider, TimerCallback callback, object state)
    {
        if (ExecutionContext.IsFlowSuppressed())
            return timeProvider.CreateTimer(callback, state, Timeout.InfiniteTimeSpan, Timeout.InfiniteTimeSpan);
        using (ExecutionContext.SuppressFlow())
            return timeProvider.CreateTimer(callback, state, Timeout.InfiniteTimeSpan, Timeout.InfiniteTimeSpan);
    }
}

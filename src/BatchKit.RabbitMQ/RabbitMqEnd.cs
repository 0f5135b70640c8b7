using RabbitMQ.Client;

namespace BatchKit.RabbitMQ;

/// <summary>Ends channels and connections.</summary>
internal static class RabbitMqEnd
{
    // The client gives an abort 5 s or more. The heartbeat ends a connection that hangs for longer.
    public static readonly TimeSpan Limit = TimeSpan.FromSeconds(6);

    /// <summary>Ends a channel, within two times the limit. Never throws.</summary>
    /// <remarks>
    /// A connection of the application that recovers itself recovers its channels too, with their consumers, until they are disposed: a channel that was only dropped would receive again, and what it receives
    /// no one would acknowledge. The client's abort may throw or never complete (version 7.2.2, issue 1976), so it is disposed whatever the abort did.
    /// </remarks>
    public static async Task EndAsync(IChannel channel, TimeProvider timeProvider)
    {
        // The client may do much work before its first await, so it does not run on the caller's thread.
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        await channel.AbortAsync().WaitAsync(Limit, timeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await channel.DisposeAsync().AsTask().WaitAsync(Limit, timeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    /// <summary>Ends a channel in this way at the end of a block.</summary>
    public static IAsyncDisposable AtEnd(IChannel channel, TimeProvider timeProvider) => new Ending(channel, timeProvider);

    /// <summary>Ends a connection that is open, or that is being opened and opens within the limit. Takes at most the limit, because the client's own limits may not hold, and never throws.</summary>
    public static async Task EndAsync(Task<IConnection> opening, TimeProvider timeProvider) =>
        await AbortAsync(opening).WaitAsync(Limit, timeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);

    private static async Task AbortAsync(Task<IConnection> opening)
    {
        // As above.
        await ((Task)opening).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing | ConfigureAwaitOptions.ForceYielding);
        if (!opening.IsCompletedSuccessfully)
            return;
        var connection = await opening.ConfigureAwait(false);
        await connection.AbortAsync().ConfigureAwait(false);
        await connection.DisposeAsync().ConfigureAwait(false);
    }

    private sealed class Ending(IChannel channel, TimeProvider timeProvider) : IAsyncDisposable
    {
        public ValueTask DisposeAsync() => new(EndAsync(channel, timeProvider));
    }
}

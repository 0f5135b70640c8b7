using RabbitMQ.Client;

namespace BatchKit.RabbitMQ;

/// <summary>Ends channels for good.</summary>
internal static class RabbitMqChannelEnd
{
    // The client gives an abort 5 s or more. The heartbeat ends a connection that hangs for longer.
    public static readonly TimeSpan Limit = TimeSpan.FromSeconds(6);

    /// <summary>Ends a channel, within two times the limit. Never throws.</summary>
    /// <remarks>
    /// A connection of the application that recovers itself recovers its channels too, with their consumers, until they are disposed: a channel that was only dropped would receive again, and what it receives
    /// nobody would acknowledge. The client's abort may throw or never complete (version 7.2.2, issue 1976), so it is disposed whatever the abort did.
    /// </remarks>
    public static async Task EndAsync(IChannel channel, TimeProvider timeProvider)
    {
        // The client may do much work before its first await, so it does not run on the caller's thread.
        await Task.Yield();
        await channel.AbortAsync().WaitAsync(Limit, timeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await channel.DisposeAsync().AsTask().WaitAsync(Limit, timeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }
}

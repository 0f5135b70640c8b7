namespace BatchKit.Broadcast.Connections;

/// <summary>Waits for clients that read, and for none that does not.</summary>
internal static class ReaderWait
{
    /// <summary>How long a client may take nothing and still be waited for.</summary>
    public static readonly TimeSpan Patience = TimeSpan.FromSeconds(1);

    private static readonly TimeSpan ShortestPause = TimeSpan.FromMilliseconds(1);

    // Its queue is asked that often, because what a client has acknowledged counts as taken only when it is seen.
    private static readonly TimeSpan LongestPause = TimeSpan.FromSeconds(0.1);

    /// <summary>Waits until each client has half of its queue free, is gone, or has taken nothing for <see cref="Patience"/>.</summary>
    /// <param name="clients">The clients.</param>
    /// <param name="limit">The longest wait in all: a client that takes a byte now and then must not hold it up for ever.</param>
    /// <param name="timeProvider">The clock.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    public static async Task RunAsync(IEnumerable<ClientConnection> clients, TimeSpan limit, TimeProvider timeProvider, CancellationToken cancellationToken)
    {
        var began = timeProvider.GetTimestamp();
        foreach (var client in clients)
        {
            cancellationToken.ThrowIfCancellationRequested();
            while (client.Output.WhenHalfFree() is { IsCompleted: false } halfFree && Rest(client) is { Ticks: > 0 } rest)
            {
                try
                {
                    await halfFree.WaitAsync(TimeSpan.FromTicks(Math.Clamp(rest.Ticks, ShortestPause.Ticks, LongestPause.Ticks)), timeProvider, cancellationToken).ConfigureAwait(false);
                }
                catch (TimeoutException)
                {
                    // It may have taken something meanwhile.
                }
            }
        }

        TimeSpan Rest(ClientConnection client) => TimeSpan.FromTicks(Math.Min((Patience - client.Output.StalledFor).Ticks, (limit - timeProvider.GetElapsedTime(began)).Ticks));
    }
}

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
    public static async Task RunAsync(IEnumerable<ClientConnection> clients, TimeProvider timeProvider, CancellationToken cancellationToken)
    {
        foreach (var client in clients)
        {
            cancellationToken.ThrowIfCancellationRequested();
            while (client.Output.WhenHalfFree() is { IsCompleted: false } halfFree && Patience - client.Output.StalledFor is { Ticks: > 0 } rest)
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
    }
}

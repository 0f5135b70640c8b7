using BatchKit.TransportSpecification.Support;

namespace BatchKit.Broadcast.Tests.Support;

/// <summary>Waits until what is under way has come to rest: a client may read its last line before the server has counted it.</summary>
internal static class Quiet
{
    private static readonly TimeSpan Period = TimeSpan.FromMilliseconds(2);

    /// <summary>Waits until a condition holds, and throws at the deadline.</summary>
    public static async Task UntilAsync(Func<bool> isMet)
    {
        using var timer = new PeriodicTimer(Period);
        using var deadline = new CancellationTokenSource(Deadline.Time);
        while (!isMet())
            await timer.WaitForNextTickAsync(deadline.Token);
    }

    /// <summary>Waits until accepted = sent + dropped + failed + pending, and returns these figures.</summary>
    public static async Task<BroadcastStatistics> WhenItAddsUpAsync(this BroadcastTransport transport, Func<BroadcastStatistics, bool>? isExpected = null)
    {
        var counted = transport.GetStatistics();
        try
        {
            await UntilAsync(() =>
            {
                counted = transport.GetStatistics();
                return counted.AddsUp() && (isExpected is null || isExpected(counted));
            });
        }
        catch (OperationCanceledException)
        {
            // The check below says what does not add up.
        }

        counted.AssertAddsUp();
        return counted;
    }
}

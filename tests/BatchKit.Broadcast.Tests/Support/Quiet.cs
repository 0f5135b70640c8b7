namespace BatchKit.Broadcast.Tests.Support;

/// <summary>Waits until what is under way has come to rest: a client may read its last line before the server has counted it.</summary>
internal static class Quiet
{
    /// <summary>Waits until accepted = sent + dropped + failed + pending, and returns these figures.</summary>
    public static async Task<BroadcastStatistics> WhenItAddsUpAsync(this BroadcastTransport transport, Func<BroadcastStatistics, bool>? isExpected = null)
    {
        var counted = transport.GetStatistics();
        try
        {
            await Until.TrueAsync(() =>
            {
                counted = transport.GetStatistics();
                return counted.AddsUp() && (isExpected is null || isExpected(counted));
            });
        }
        catch (TimeoutException)
        {
            // The check below says what does not add up.
        }

        counted.AssertAddsUp();
        return counted;
    }
}

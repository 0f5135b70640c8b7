using BatchKit.TransportSpecification.Support;

namespace BatchKit.Broadcast.Tests.Tcp;

/// <summary>Waits for what has no event of its own.</summary>
internal static class Until
{
    /// <summary>Looks again and again until it is so, within the deadline of a test.</summary>
    public static async Task TrueAsync(Func<bool> isSo)
    {
        using var deadline = new CancellationTokenSource(Deadline.Time);
        while (!isSo())
            await Task.Delay(1, deadline.Token);
    }
}

namespace BatchKit.TransportSpecification.Support;

/// <summary>Waits for what has no event of its own.</summary>
public static class Until
{
    /// <summary>Looks again and again until it is so, within the deadline of a test.</summary>
    public static async Task TrueAsync(Func<bool> isSo)
    {
        using var deadline = new CancellationTokenSource(Deadline.Time);
        while (!isSo())
            await Task.Delay(1, deadline.Token);
    }
}

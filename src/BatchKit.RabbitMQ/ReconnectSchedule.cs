namespace BatchKit.RabbitMQ;

/// <summary>The arithmetic of pauses between attempts to connect: they double up to a limit, each less a random part of up to a half.</summary>
internal sealed class ReconnectSchedule(RabbitMqOptions options)
{
    private int _failures;

    public void Succeeded() => _failures = 0;

    public TimeSpan NextDelay()
    {
        // 2^20 times the shortest allowed first pause is past the longest allowed one.
        var doublings = Math.Min(_failures++, 20);
        var delay = Math.Min(options.ReconnectDelay.TotalMilliseconds * (1L << doublings), options.MaxReconnectDelay.TotalMilliseconds);
        return TimeSpan.FromMilliseconds(delay * (1 - (Random.Shared.NextDouble() / 2)));
    }
}

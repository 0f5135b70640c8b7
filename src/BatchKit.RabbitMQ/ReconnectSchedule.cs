using BatchKit.Transports;

namespace BatchKit.RabbitMQ;

/// <summary>The pauses between attempts to connect.</summary>
internal sealed class ReconnectSchedule(RabbitMqOptions options)
{
    private readonly RetrySchedule _schedule = new(options.ReconnectDelay, options.MaxReconnectDelay);
    private int _failures;

    public void Succeeded() => _failures = 0;

    public TimeSpan NextDelay() => _schedule.DelayAfter(++_failures, Random.Shared);
}

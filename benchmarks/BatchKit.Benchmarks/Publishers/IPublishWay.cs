namespace BatchKit.Benchmarks.Publishers;

/// <summary>One way to publish many messages of one shape.</summary>
internal interface IPublishWay : IAsyncDisposable
{
    /// <summary>Publishes so many and completes when all are on their way, with QoS 1 when the broker has acknowledged them.</summary>
    Task PublishAsync(int messages);
}

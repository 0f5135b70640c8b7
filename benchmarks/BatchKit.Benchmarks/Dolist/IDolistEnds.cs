namespace BatchKit.Benchmarks.Dolist;

/// <summary>A publisher and a consumer without BatchKit.</summary>
internal interface IDolistEnds : IAsyncDisposable
{
    Arrival Arrival { get; }

    /// <summary>Publishes one message; the task ends when the broker has accepted it.</summary>
    ValueTask PublishAsync(byte[] bytes);
}

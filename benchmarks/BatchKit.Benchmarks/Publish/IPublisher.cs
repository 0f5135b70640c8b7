using BatchKit.Benchmarks.Publishers;

namespace BatchKit.Benchmarks.Publish;

/// <summary>What publishes, in processes beside this one.</summary>
internal interface IPublisher : IDisposable
{
    /// <summary>Publishes so many, and says what that took; times that it does not know are zero.</summary>
    PublishUsage Run(PublishTarget target, int messages);
}

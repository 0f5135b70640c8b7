using BatchKit.Benchmarks.Publishers;

namespace BatchKit.Benchmarks.Publish;

/// <summary>What publishes, in processes beside this one.</summary>
internal interface IPublisher : IDisposable
{
    /// <summary>Publishes so many, and says what that took; times that it does not know are zero.</summary>
    /// <param name="target">Where they go.</param>
    /// <param name="messages">How many.</param>
    /// <param name="countArrived">How many have arrived: while they do, it may take as long as it takes, because a broker may be far away.</param>
    PublishUsage Run(PublishTarget target, int messages, Func<long>? countArrived = null);
}

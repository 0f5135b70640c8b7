using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.Publishers;

namespace BatchKit.Benchmarks.Publish;

/// <summary>A way to publish that is a part of this program.</summary>
internal sealed class PublisherChild(PublishWay way) : IPublisher
{
    private readonly ChildProcess _process = Start(way);

    public PublishUsage Run(PublishTarget target, int messages, Func<long>? countArrived = null) => PublishUsage.From(_process.Ask($"run {messages} {target.Words}", countArrived));

    /// <summary>Publishes as a game's loop does, in so many ticks.</summary>
    public PublishUsage RunPaced(PublishTarget target, int ticks) => PublishUsage.From(_process.Ask($"paced {ticks} {target.Words}"));

    public void Dispose() => _process.Dispose();

    private static ChildProcess Start(PublishWay way)
    {
        var process = ChildProcess.Start("publish", $"{way}");
        process.Read();
        return process;
    }
}

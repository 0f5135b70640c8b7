using BatchKit.Benchmarks.Publishers;

namespace BatchKit.Benchmarks.Publish;

/// <summary>A publisher for each way, for as long as the suite runs.</summary>
internal sealed class PublisherCast : IDisposable
{
    private readonly Dictionary<PublishWay, IPublisher> _publishers = [];

    public PublisherCast(IEnumerable<PublishWay> ways)
    {
        foreach (var way in ways)
            _publishers[way] = way == PublishWay.MosquittoPub ? new MosquittoPub() : new PublisherChild(way);
    }

    public IReadOnlyCollection<PublishWay> Ways => _publishers.Keys;

    public IPublisher this[PublishWay way] => _publishers[way];

    public void Dispose()
    {
        foreach (var publisher in _publishers.Values)
            publisher.Dispose();
    }
}

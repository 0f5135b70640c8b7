using BatchKit.Benchmarks.RawMqtt;
using BatchKit.Mqtt;

namespace BatchKit.Benchmarks.Publishers;

/// <summary><c>PublishManyAsync</c> in a loop, so many messages a call, each call awaited.</summary>
internal sealed class BatchKitMany(PublishTarget target, int messagesPerCall) : IPublishWay
{
    private readonly MqttTransport _transport = BatchKitEnd.MakeTransport(target);

    private readonly MqttMessage[] _messages =
    [
        .. Enumerable.Repeat(
            new MqttMessage(PublishShape.TopicAt(0) + new string('t', target.TopicPadding), PublishShape.MakePayload()) { UserProperties = target.Shape.PropertyPairs },
            messagesPerCall),
    ];

    public async Task PublishAsync(int messages)
    {
        for (var left = messages; left > 0; left -= messagesPerCall)
        {
            var report = await _transport.PublishManyAsync(_messages.AsMemory(0, Math.Min(left, messagesPerCall)));
            if (!report.IsSuccess)
                throw new InvalidOperationException("The broker refused a message.");
        }
    }

    public ValueTask DisposeAsync() => _transport.DisposeAsync();
}

using BatchKit.Benchmarks.OverMQTTnet;

namespace BatchKit.Benchmarks.Publishers;

/// <summary>Makes each way to publish that is a part of this program.</summary>
internal static class PublishWays
{
    private const int ManyTopics = 1000;
    private const int PipelineWindow = 1000;

    public static IPublishWay Make(PublishWay way, PublishTarget target) => way switch
    {
        PublishWay.Floor => new RawFloor(target),
        PublishWay.Awaited => new BatchKitMany(target, messagesPerCall: 1),
        PublishWay.PublishMany => new BatchKitMany(target, BatchKitEnd.BatchMessages),
        PublishWay.Scope => new BatchKitScoped(BatchKitEnd.MakeTransport(target), target),
        PublishWay.ScopeOverTopics => new BatchKitScoped(BatchKitEnd.MakeTransport(target), target with { Topics = ManyTopics }),
        PublishWay.Unscoped => new BatchKitUnscoped(target),
        PublishWay.MqttNetAwaited => new MqttNetPublisher(target, window: 1),
        PublishWay.MqttNetPipelined => new MqttNetPublisher(target, PipelineWindow),
        PublishWay.OverMqttNet => new BatchKitScoped(new MqttNetClientEnd(target), target),
        PublishWay.MqttNetInjectLoop => new MqttNetInjectLoop(target),
        PublishWay.MqttNetPublishMany => new MqttNetPublishMany(target),
        PublishWay.MqttNetInjectScope => new BatchKitScoped(new MqttNetServerEnd(target), target),
        PublishWay.MqttNetInjectMany => new MqttNetInjectMany(target, isBatched: false),
        PublishWay.MqttNetInjectManyBatched => new MqttNetInjectMany(target, isBatched: true),
        _ => throw new ArgumentOutOfRangeException(nameof(way), way, "This one is no part of the program."),
    };
}

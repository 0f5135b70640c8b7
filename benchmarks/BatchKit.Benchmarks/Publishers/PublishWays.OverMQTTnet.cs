using BatchKit.Benchmarks.OverMQTTnet;

namespace BatchKit.Benchmarks.Publishers;

/// <content>The ways over MQTTnet, where it is a part of the build.</content>
internal static partial class PublishWays
{
    private const int PipelineWindow = 1000;

    static partial void FindOverMqttNet(ref Func<PublishWay, PublishTarget, IPublishWay>? make) => make = MakeOverMqttNet;

    private static IPublishWay MakeOverMqttNet(PublishWay way, PublishTarget target) => way switch
    {
        PublishWay.MqttNetAwaited => new MqttNetPublisher(target, window: 1),
        PublishWay.MqttNetPipelined => new MqttNetPublisher(target, PipelineWindow),
        PublishWay.OverMqttNet => new BatchKitScoped(new MqttNetClientEnd(target), target),
        PublishWay.MqttNetInjectLoop => new MqttNetInjectLoop(target),
        PublishWay.MqttNetPublishMany => new MqttNetPublishMany(target),
        PublishWay.MqttNetInjectScope => new BatchKitScoped(new MqttNetServerEnd(target), target),
        PublishWay.MqttNetInjectMany => new MqttNetInjectMany(target),
        _ => throw new ArgumentOutOfRangeException(nameof(way), way, "MQTTnet has no such way."),
    };
}

namespace BatchKit.Benchmarks.Publishers;

/// <summary>Makes each way to publish that is a part of this program.</summary>
internal static partial class PublishWays
{
    private const int ManyTopics = 1000;

    /// <summary>Why a way can't run here; null when it can.</summary>
    public static string? WhyMissing(PublishWay way) => way >= PublishWay.MqttNetAwaited && FindOverMqttNet() is null
        ? "built without MQTTnet (-p:WithMQTTnet=true, where it can be restored)"
        : null;

    public static IPublishWay Make(PublishWay way, PublishTarget target) => way switch
    {
        PublishWay.Floor => new RawFloor(target),
        PublishWay.Awaited => new BatchKitMany(target, messagesPerCall: 1),
        PublishWay.PublishMany => new BatchKitMany(target, BatchKitEnd.BatchMessages),
        PublishWay.Scope => new BatchKitScoped(BatchKitEnd.MakeTransport(target), target),
        PublishWay.ScopeOverTopics => new BatchKitScoped(BatchKitEnd.MakeTransport(target), target with { Topics = ManyTopics }),
        PublishWay.Unscoped => new BatchKitUnscoped(target),
        _ when FindOverMqttNet() is { } make => make(way, target),
        _ => throw new ArgumentOutOfRangeException(nameof(way), way, "This one is no part of the program."),
    };

    private static Func<PublishWay, PublishTarget, IPublishWay>? FindOverMqttNet()
    {
        Func<PublishWay, PublishTarget, IPublishWay>? make = null;
        FindOverMqttNet(ref make);
        return make;
    }

    /// <summary>Has a body where MQTTnet is a part of the build.</summary>
    static partial void FindOverMqttNet(ref Func<PublishWay, PublishTarget, IPublishWay>? make);
}

using BatchKit.Benchmarks.RawMqtt;
using BatchKit.Mqtt;

namespace BatchKit.Benchmarks.Publishers;

/// <summary>Makes BatchKit's parts with its own defaults, but for what the target says.</summary>
internal static class BatchKitEnd
{
    public const int BatchMessages = 1000;

    public static MqttTransport MakeTransport(PublishTarget target) => new(new MqttOptions
    {
        Server = target.Server,
        ValidateServerCertificate = PublishTarget.IsSecure ? static (_, certificate, _, errors) => BrokerCertificate.IsTrusted(certificate, errors) : null,
        QualityOfService = (MqttQualityOfService)target.Shape.Quality,
        PublishWindow = target.Window,
        MaxTopicAliases = target.Aliases,
        QuickAcknowledge = target.AcknowledgesAtOnce,
    });

    /// <summary>What a message says about itself.</summary>
    public static MessageHeader? MakeHeader(PublishShape shape) => shape.Properties == 0 ? null : new MessageHeader { Properties = [.. shape.PropertyPairs] };

    /// <summary>What <c>UseMqtt</c> sets up.</summary>
    public static OutputBufferOptions MakeBufferOptions() => new() { Linger = TimeSpan.FromMilliseconds(8), MaxBatchMessages = BatchMessages };
}

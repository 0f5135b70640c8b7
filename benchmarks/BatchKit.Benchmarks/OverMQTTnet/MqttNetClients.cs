using BatchKit.Benchmarks.Publishers;
using BatchKit.Benchmarks.RawMqtt;
using BatchKit.MQTTnet;
using MQTTnet;
using MQTTnet.Formatter;
using MQTTnet.Packets;
using MQTTnet.Protocol;

namespace BatchKit.Benchmarks.OverMQTTnet;

/// <summary>Makes MQTTnet's clients and messages as an application would.</summary>
internal static class MqttNetClients
{
    public static IMqttClient Make(bool isBatched) =>
        isBatched ? new MqttClientFactory().CreateMqttClient(new BatchedWriteClientAdapterFactory()) : new MqttClientFactory().CreateMqttClient();

    public static void Connect(IMqttClient client, int port)
    {
        var options = new MqttClientOptionsBuilder().WithTcpServer(PublishTarget.Host, port).WithProtocolVersion(MqttProtocolVersion.V500);
        if (PublishTarget.UserName is { } userName)
            options.WithCredentials(userName, PublishTarget.Password);
        if (PublishTarget.IsSecure)
            options.WithTlsOptions(static tls => tls.UseTls().WithCertificateValidationHandler(static checkedOne => BrokerCertificate.IsTrusted(checkedOne.Certificate, checkedOne.SslPolicyErrors)));
        client.ConnectAsync(options.Build()).GetAwaiter().GetResult();
    }

    public static MqttApplicationMessage MakeMessage(PublishShape shape, string topic, byte[] payload, bool isRetained = false) => new()
    {
        Topic = topic,
        PayloadSegment = payload,
        QualityOfServiceLevel = (MqttQualityOfServiceLevel)shape.Quality,
        Retain = isRetained,
        UserProperties = shape.Properties == 0 ? null : [.. shape.PropertyPairs.Select(pair => UserProperty.Create(pair.Key, pair.Value))],
    };
}

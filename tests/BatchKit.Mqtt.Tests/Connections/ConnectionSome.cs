using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>Makers of test values.</summary>
internal static class ConnectionSome
{
    public static byte[] Connack => [0x20, 3, 0, 0, 0];

    public static byte[] Connack311 => [0x20, 2, 0, 0];

    public static byte[] PingRequest => [0xC0, 0];

    public static byte[] PingResponse => [0xD0, 0];

    public static byte[] Goodbye => [0xE0, 2, 0, 0];

    public static MqttOptions Options(FakeBroker broker, MqttVersion version = MqttVersion.V5, string host = "127.0.0.1") => new() { Server = new Uri($"mqtt://{host}:{broker.Port}"), Version = version };

    /// <summary>A PUBLISH of QoS 0 for topic t, with so many bytes of payload, which hold the number.</summary>
    public static byte[] Publish(int number, int payloadBytes = 4)
    {
        var payload = new byte[payloadBytes];
        payload.AsSpan().Fill((byte)number);
        var fields = new PublishFields { Topic = "t", Payload = payload };
        var packet = new byte[PublishPacket.Measure(fields, MqttVersion.V5)];
        PublishPacket.Write(packet, fields, MqttVersion.V5, packetId: 0, isDuplicate: false);
        return packet;
    }
}

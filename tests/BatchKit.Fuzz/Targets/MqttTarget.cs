using BatchKit.Mqtt;
using BatchKit.Mqtt.Packets;

namespace BatchKit.Fuzz.Targets;

/// <summary>What a broker sends, packet behind packet, is read or refused. The first byte chooses the version.</summary>
internal static class MqttTarget
{
    private const int MaxPacketBytes = 4096;

    public static void Run(byte[] input)
    {
        if (input.Length == 0)
            return;
        var version = input[0] % 2 == 0 ? MqttVersion.V5 : MqttVersion.V311;
        try
        {
            ReadAll(input.AsSpan(1), version);
        }
        catch (MqttProtocolException refusal)
        {
            FuzzTarget.Require(Enum.IsDefined(refusal.ReasonCode), "a refusal has a reason code of the protocol");
        }
    }

    private static void ReadAll(ReadOnlySpan<byte> rest, MqttVersion version)
    {
        while (PacketHeader.TryRead(rest, MaxPacketBytes, out var header, out var headerBytes, allowsLargePublish: true))
        {
            rest = rest[headerBytes..];
            if (header.IsTooLarge ? !PublishPacket.TryOmitPayload(ref header, rest) : rest.Length < header.BodyBytes)
                return;
            FuzzTarget.Require(header.OmittedBytes >= 0, "no packet leaves out less than nothing");
            if (rest.Length < header.BodyBytes)
                return;
            Read(header, rest[..header.BodyBytes], version);
            rest = rest[Math.Min(rest.Length, header.BodyBytes + header.OmittedBytes)..];
        }
    }

    private static void Read(PacketHeader header, ReadOnlySpan<byte> body, MqttVersion version)
    {
        switch (header.Type)
        {
            case PacketType.Connack:
                ConnackPacket.Read(body, version);
                break;
            case PacketType.Publish:
                var publish = PublishPacket.Read(header, body, version);
                FuzzTarget.Require(publish.HasUserProperties == (UserProperties.Read(publish.Properties).Length > 0), "a message knows whether it has user properties");
                break;
            case PacketType.Puback:
                PubackPacket.Read(body, version, out _, out _);
                break;
            case PacketType.Suback:
                SubackPacket.Read(body, version);
                break;
            case PacketType.Disconnect:
                DisconnectPacket.Read(body, version, out _, out _);
                break;
            default:
                break;
        }
    }
}

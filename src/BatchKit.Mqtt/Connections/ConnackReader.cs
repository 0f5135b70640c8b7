using System.Diagnostics.CodeAnalysis;
using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Connections;

/// <summary>Reads the broker's first packet, which must be a CONNACK, or sees that it speaks another protocol.</summary>
internal static class ConnackReader
{
    // A record of TLS: an alert, of version 3.x.
    private static ReadOnlySpan<byte> TlsAlert => [0x15, 0x03];

    /// <returns>False when more must arrive first.</returns>
    /// <exception cref="MqttConnectException">It is another protocol.</exception>
    /// <exception cref="MqttProtocolException">It is malformed.</exception>
    public static bool TryRead(ReadBuffer input, MqttOptions options, [NotNullWhen(true)] out ConnackPacket? connack)
    {
        connack = null;
        if (input.Unread.Length < TlsAlert.Length)
            return false;
        if (input.Unread.StartsWith(TlsAlert))
            throw new MqttConnectException("It speaks TLS on this port: use mqtts:// or wss://.") { IsRefusal = true };
        if (input.Unread.StartsWith("HTTP/"u8))
            throw new MqttConnectException("It speaks HTTP on this port: use ws:// or wss:// if it serves MQTT over WebSocket there.") { IsRefusal = true };
        if (!PacketHeader.TryRead(input.Unread, options.MaxPacketBytes, out var header, out var headerBytes))
            return false;
        if (header.Type != PacketType.Connack)
            throw new MqttProtocolException(MqttReasonCode.ProtocolError, $"The first packet is {header.Type}, not a CONNACK.");
        if (input.Unread.Length - headerBytes < header.BodyBytes)
            return false;
        connack = ConnackPacket.Read(input.Unread.Slice(headerBytes, header.BodyBytes), options.Version);
        input.Consume(headerBytes + header.BodyBytes);
        return true;
    }
}

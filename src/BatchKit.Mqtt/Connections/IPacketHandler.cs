using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Connections;

/// <summary>Gets the packets of one connection, in their order, on its reader's thread. PINGRESP and DISCONNECT are the connection's own.</summary>
internal interface IPacketHandler
{
    /// <summary>One packet, checked for its header only. Its memory is valid during the call.</summary>
    /// <exception cref="MqttProtocolException">It is malformed or out of place; the connection is closed with the reason code.</exception>
    void Handle(PacketHeader header, ReadOnlySpan<byte> body);

    /// <summary>All packets that one read brought were given. Nothing more is read until this completes.</summary>
    ValueTask FinishReadAsync(CancellationToken cancellationToken);
}

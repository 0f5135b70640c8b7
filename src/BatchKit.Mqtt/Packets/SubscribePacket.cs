namespace BatchKit.Mqtt.Packets;

/// <summary>SUBSCRIBE (MQTT 5, section 3.8).</summary>
internal static class SubscribePacket
{
    private const int Flags = 0b0010;
    private const int NoLocal = 1 << 2;
    private const int RetainAsPublished = 1 << 3;
    private const int RetainHandlingShift = 4;

    /// <summary>The size of a packet with one subscription.</summary>
    public static long Measure(MqttSubscription subscription, MqttVersion version) => MeasurePacket(MeasureStart(version) + MeasureEntry(subscription));

    /// <summary>Divides subscriptions among packets within a limit, in order. Each of them fits alone.</summary>
    public static Queue<List<MqttSubscription>> Split(IReadOnlyList<MqttSubscription> subscriptions, MqttVersion version, uint maxPacketBytes)
    {
        var packets = new Queue<List<MqttSubscription>>();
        var bodyBytes = 0;
        List<MqttSubscription>? packet = null;
        foreach (var subscription in subscriptions)
        {
            bodyBytes += MeasureEntry(subscription);
            if (packet is null || MeasurePacket(bodyBytes) > maxPacketBytes)
            {
                bodyBytes = MeasureStart(version) + MeasureEntry(subscription);
                packets.Enqueue(packet = []);
            }

            packet.Add(subscription);
        }

        return packets;
    }

    /// <summary>Writes the packet into an array of exactly its size.</summary>
    /// <param name="packetId">The packet id.</param>
    /// <param name="subscriptions">The subscriptions; at least one.</param>
    /// <param name="version">The connection's version.</param>
    /// <param name="isRepeated">True when the session has them already, so that the broker need not send the retained messages again. 3.1.1 can't express it.</param>
    /// <exception cref="ArgumentException">A filter holds half a surrogate pair.</exception>
    /// <exception cref="MqttProtocolException">A filter is longer than 65,535 bytes.</exception>
    public static byte[] Write(ushort packetId, IReadOnlyList<MqttSubscription> subscriptions, MqttVersion version, bool isRepeated = false)
    {
        var bodyBytes = MeasureStart(version) + subscriptions.Sum(MeasureEntry);
        var packet = new byte[MeasurePacket(bodyBytes)];
        var writer = new PacketWriter(packet);
        writer.WriteHeader(PacketType.Subscribe, Flags, bodyBytes);
        writer.WriteTwoBytes(packetId);
        if (version == MqttVersion.V5)
            writer.WriteLength(0);
        foreach (var subscription in subscriptions)
        {
            writer.WriteText(subscription.Filter);
            writer.WriteByte((byte)(version == MqttVersion.V5 ? OptionsOf(subscription, isRepeated) : (int)subscription.QualityOfService));
        }

        return packet;
    }

    // The packet id, and the length of the properties.
    private static int MeasureStart(MqttVersion version) => sizeof(ushort) + (version == MqttVersion.V5 ? 1 : 0);

    private static int MeasureEntry(MqttSubscription subscription) => sizeof(ushort) + PacketText.Strict.GetByteCount(subscription.Filter) + 1;

    private static long MeasurePacket(int bodyBytes) => 1 + VariableByteInteger.Measure(bodyBytes) + bodyBytes;

    // Section 3.8.3.1.
    private static int OptionsOf(MqttSubscription subscription, bool isRepeated)
    {
        var retainHandling = isRepeated && subscription.RetainHandling == MqttRetainHandling.SendAtStart ? MqttRetainHandling.SendIfNew : subscription.RetainHandling;
        return (int)subscription.QualityOfService | (subscription.NoLocal ? NoLocal : 0) | (subscription.RetainAsPublished ? RetainAsPublished : 0) | (int)retainHandling << RetainHandlingShift;
    }
}

/// <summary>SUBACK (MQTT 5, section 3.9): a reason code for each subscription, in the order of the SUBSCRIBE.</summary>
internal sealed record SubackPacket(ushort PacketId, IReadOnlyList<MqttReasonCode> ReasonCodes, string? Reason)
{
    /// <exception cref="MqttProtocolException">The packet is malformed.</exception>
    public static SubackPacket Read(ReadOnlySpan<byte> body, MqttVersion version)
    {
        var reader = new PacketReader(body);
        var packetId = reader.ReadPacketId();
        var reason = version == MqttVersion.V5 ? ReasonProperty.Read(reader.ReadProperties(), PropertySets.Acknowledgement) : null;
        if (reader.Rest.IsEmpty)
            throw MqttProtocolException.Malformed("A SUBACK has no reason code.");
        var codes = new MqttReasonCode[reader.Rest.Length];
        for (var index = 0; index < codes.Length; index++)
            codes[index] = ReadCode(reader.ReadByte(), version);
        return new SubackPacket(packetId, codes, reason);
    }

    // 3.1.1 has only one failure code (section 3.9.3).
    private static MqttReasonCode ReadCode(byte value, MqttVersion version) =>
        version == MqttVersion.V5 || value <= (byte)MqttReasonCode.UnspecifiedError
            ? Packets.ReasonCodes.Read(value, MqttReasonCode.Success, MqttReasonCode.GrantedQoS1, MqttReasonCode.GrantedQoS2)
            : throw MqttProtocolException.Forbidden($"The return code 0x{value:X2} is not valid in a SUBACK.");
}

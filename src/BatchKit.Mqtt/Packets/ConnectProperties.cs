namespace BatchKit.Mqtt.Packets;

/// <summary>CONNECT's properties (MQTT 5, section 3.1.2.11): those that differ from what a broker assumes.</summary>
internal static class ConnectProperties
{
    private const int TwoBytesProperty = 1 + sizeof(ushort);
    private const int FourBytesProperty = 1 + sizeof(uint);

    /// <summary>Their bytes with the length before them; none in 3.1.1.</summary>
    public static long MeasureWithLength(ConnectFields fields) => fields.Version == MqttVersion.V5 ? 1 + Measure(fields) : 0;

    public static void WriteWithLength(ref PacketWriter writer, ConnectFields fields)
    {
        if (fields.Version != MqttVersion.V5)
            return;
        writer.WriteLength(Measure(fields));
        if (fields.SessionExpiry != 0)
        {
            writer.WriteByte((byte)PropertyId.SessionExpiry);
            writer.WriteFourBytes(fields.SessionExpiry);
        }

        if (fields.ReceiveMaximum != ushort.MaxValue)
        {
            writer.WriteByte((byte)PropertyId.ReceiveMaximum);
            writer.WriteTwoBytes(fields.ReceiveMaximum);
        }

        if (fields.MaxPacketBytes != uint.MaxValue)
        {
            writer.WriteByte((byte)PropertyId.MaximumPacketSize);
            writer.WriteFourBytes(fields.MaxPacketBytes);
        }

        if (fields.TopicAliasMaximum != 0)
        {
            writer.WriteByte((byte)PropertyId.TopicAliasMaximum);
            writer.WriteTwoBytes(fields.TopicAliasMaximum);
        }
    }

    private static int Measure(ConnectFields fields) =>
        (fields.SessionExpiry != 0 ? FourBytesProperty : 0)
        + (fields.ReceiveMaximum != ushort.MaxValue ? TwoBytesProperty : 0)
        + (fields.MaxPacketBytes != uint.MaxValue ? FourBytesProperty : 0)
        + (fields.TopicAliasMaximum != 0 ? TwoBytesProperty : 0);
}

namespace BatchKit.Mqtt.Tests.Packets.Plain;

/// <summary>Reads whole packets from the specification's text alone, as strictly as that allows. Slow and plain.</summary>
internal static class PlainDecoder
{
    private const int FirstFailure = 0x80;
    private const int LastFailure = 0xA2;

    /// <summary>3.1.1's return codes of CONNACK as the reason codes of the same meaning.</summary>
    public static readonly int[] ReturnCodes = [0x00, 0x84, 0x85, 0x88, 0x86, 0x87];

    /// <summary>Reads a packet.</summary>
    /// <returns>It, or null when it is not a whole packet that the protocol allows.</returns>
    public static PlainPacket? Decode(byte[] bytes, MqttVersion version, bool isFromBroker)
    {
        var cursor = new PlainCursor(bytes, 0, bytes.Length);
        var first = cursor.Byte();
        var (type, flags) = (first / 16, first % 16);
        if (cursor.VariableBytes() != cursor.Left || cursor.Failed || !AreFlagsAllowed(type, flags))
            return null;
        var isFive = version == MqttVersion.V5;
        var packet = (type, isFromBroker) switch
        {
            (1, false) => Connect(cursor),
            (2, true) => Connack(cursor, isFive),
            (3, _) => Publish(cursor, flags, isFive),
            (4, _) => Puback(cursor, isFive),
            (8, false) => Subscribe(cursor, isFive),
            (9, true) => Suback(cursor, isFive),
            (12, false) or (13, true) => new PlainPacket { Type = type },
            (14, false) => Disconnect(cursor, isFive, "GOODBYE", 0x00, 0x04),
            (14, true) when isFive => Disconnect(cursor, isFive, "DISCONNECT", 0x00),
            _ => null,
        };
        return cursor.Failed || !cursor.IsAtEnd ? null : packet;
    }

    private static bool AreFlagsAllowed(int type, int flags) => type switch
    {
        3 => (flags / 2 % 4) switch { 0 => flags < 8, 3 => false, _ => true },
        6 or 8 or 10 => flags == 2,
        _ => flags == 0,
    };

    private static PlainPacket Connect(PlainCursor cursor)
    {
        cursor.FailIf(cursor.Text() != "MQTT");
        var level = cursor.Byte();
        cursor.FailIf(level is not (4 or 5));
        var flags = cursor.Byte();
        var (hasUserName, hasPassword, hasWill) = ((flags & 128) != 0, (flags & 64) != 0, (flags & 4) != 0);
        cursor.FailIf((flags & 1) != 0 || (!hasWill && (flags & 0x38) != 0) || (flags & 0x18) == 0x18 || (level == 4 && hasPassword && !hasUserName));
        var keepAlive = cursor.TwoBytes();
        var properties = level == 5 ? PlainProperties.Read(cursor, "CONNECT") : [];
        var clientId = cursor.Text();
        var will = hasWill ? Will(cursor, flags, level == 5) : null;
        return new PlainPacket
        {
            Type = 1,
            Properties = properties,
            Connect = new PlainConnect
            {
                Level = level,
                CleanStart = (flags & 2) != 0,
                KeepAlive = keepAlive,
                ClientId = clientId,
                Will = will,
                UserName = hasUserName ? cursor.Text() : null,
                Password = hasPassword ? cursor.Binary() : null,
            },
        };
    }

    private static PlainPacket Will(PlainCursor cursor, int flags, bool isFive)
    {
        var properties = isFive ? PlainProperties.Read(cursor, "WILL") : [];
        var topic = cursor.Text();
        cursor.FailIf(topic.Length == 0 || topic.IndexOfAny(['+', '#']) >= 0);
        return new PlainPacket { Type = 3, Flags = (flags / 8 % 4 * 2) + (flags / 32 % 2), Topic = topic, Properties = properties, Payload = cursor.Binary() };
    }

    private static PlainPacket Connack(PlainCursor cursor, bool isFive)
    {
        var isOld = !isFive || (cursor.Left == 2);
        var flags = cursor.Byte();
        var code = cursor.Byte();
        cursor.FailIf(flags > 1 || (isFive && isOld && code != 1));
        var reasonCode = isOld ? ReturnCodes.ElementAtOrDefault(code) : code;
        cursor.FailIf(isOld ? code > 5 : !IsKnown(code, 0x00));
        cursor.FailIf(flags == 1 && reasonCode != 0);
        return new PlainPacket { Type = 2, Codes = [flags, reasonCode], Properties = isOld ? [] : PlainProperties.Read(cursor, "CONNACK") };
    }

    private static PlainPacket Publish(PlainCursor cursor, int flags, bool isFive)
    {
        var topic = cursor.Text();
        var packetId = (flags & 6) != 0 ? PacketId(cursor) : 0;
        var properties = isFive ? PlainProperties.Read(cursor, "PUBLISH") : [];
        cursor.FailIf(topic.IndexOfAny(['+', '#']) >= 0 || (topic.Length == 0 && properties.All(static property => property.Id != 0x23)));
        return new PlainPacket { Type = 3, Flags = flags, Topic = topic, PacketId = packetId, Properties = properties, Payload = cursor.Take(cursor.Left) };
    }

    private static PlainPacket Puback(PlainCursor cursor, bool isFive)
    {
        var packetId = PacketId(cursor);
        var code = isFive && !cursor.IsAtEnd ? Code(cursor, 0x00, 0x10) : 0;
        return new PlainPacket { Type = 4, PacketId = packetId, Codes = [code], Properties = isFive && !cursor.IsAtEnd ? PlainProperties.Read(cursor, "PUBACK") : [] };
    }

    private static PlainPacket Subscribe(PlainCursor cursor, bool isFive)
    {
        var packetId = PacketId(cursor);
        var properties = isFive ? PlainProperties.Read(cursor, "SUBSCRIBE") : [];
        var filters = new List<(string, int)>();
        do
        {
            var filter = cursor.Text();
            var options = cursor.Byte();
            cursor.FailIf(filter.Length == 0 || options % 4 == 3 || options >= (isFive ? 0x30 : 3));
            cursor.FailIf((options & 4) != 0 && filter.StartsWith("$share/", StringComparison.Ordinal));
            filters.Add((filter, options));
        }
        while (!cursor.IsAtEnd);
        return new PlainPacket { Type = 8, Flags = 2, PacketId = packetId, Properties = properties, Filters = filters };
    }

    private static PlainPacket Suback(PlainCursor cursor, bool isFive)
    {
        var packetId = PacketId(cursor);
        var properties = isFive ? PlainProperties.Read(cursor, "SUBACK") : [];
        var codes = new List<int>();
        do
        {
            var code = Code(cursor, 0x00, 0x01, 0x02);
            cursor.FailIf(!isFive && code > FirstFailure);
            codes.Add(code);
        }
        while (!cursor.IsAtEnd);
        return new PlainPacket { Type = 9, PacketId = packetId, Codes = codes, Properties = properties };
    }

    private static PlainPacket Disconnect(PlainCursor cursor, bool isFive, string name, params int[] successes)
    {
        var code = isFive && !cursor.IsAtEnd ? Code(cursor, successes) : 0;
        return new PlainPacket { Type = 14, Codes = [code], Properties = isFive && !cursor.IsAtEnd ? PlainProperties.Read(cursor, name) : [] };
    }

    private static int PacketId(PlainCursor cursor)
    {
        var packetId = cursor.TwoBytes();
        cursor.FailIf(packetId == 0);
        return packetId;
    }

    private static int Code(PlainCursor cursor, params int[] successes)
    {
        var code = cursor.Byte();
        cursor.FailIf(!IsKnown(code, successes));
        return code;
    }

    private static bool IsKnown(int code, params int[] successes) => successes.Contains(code) || code is >= FirstFailure and <= LastFailure;
}

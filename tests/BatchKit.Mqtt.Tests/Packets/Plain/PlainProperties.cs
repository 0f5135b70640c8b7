namespace BatchKit.Mqtt.Tests.Packets.Plain;

/// <summary>Table 2-4 of MQTT 5, and the reading and writing of properties by it.</summary>
internal static class PlainProperties
{
    public const int UserProperty = 0x26;

    public static IReadOnlyDictionary<int, (PlainKind Kind, string Packets)> Table { get; } = new Dictionary<int, (PlainKind, string)>
    {
        [0x01] = (PlainKind.Byte, "PUBLISH WILL"),
        [0x02] = (PlainKind.FourBytes, "PUBLISH WILL"),
        [0x03] = (PlainKind.Text, "PUBLISH WILL"),
        [0x08] = (PlainKind.Text, "PUBLISH WILL"),
        [0x09] = (PlainKind.Binary, "PUBLISH WILL"),
        [0x0B] = (PlainKind.VariableBytes, "PUBLISH SUBSCRIBE"),
        [0x11] = (PlainKind.FourBytes, "CONNECT CONNACK GOODBYE"),
        [0x12] = (PlainKind.Text, "CONNACK"),
        [0x13] = (PlainKind.TwoBytes, "CONNACK"),
        [0x15] = (PlainKind.Text, "CONNECT CONNACK AUTH"),
        [0x16] = (PlainKind.Binary, "CONNECT CONNACK AUTH"),
        [0x17] = (PlainKind.Byte, "CONNECT"),
        [0x18] = (PlainKind.FourBytes, "WILL"),
        [0x19] = (PlainKind.Byte, "CONNECT"),
        [0x1A] = (PlainKind.Text, "CONNACK"),
        [0x1C] = (PlainKind.Text, "CONNACK DISCONNECT"),
        [0x1F] = (PlainKind.Text, "CONNACK PUBACK SUBACK DISCONNECT AUTH"),
        [0x21] = (PlainKind.TwoBytes, "CONNECT CONNACK"),
        [0x22] = (PlainKind.TwoBytes, "CONNECT CONNACK"),
        [0x23] = (PlainKind.TwoBytes, "PUBLISH"),
        [0x24] = (PlainKind.Byte, "CONNACK"),
        [0x25] = (PlainKind.Byte, "CONNACK"),
        [UserProperty] = (PlainKind.Pair, "CONNECT CONNACK PUBLISH WILL PUBACK SUBSCRIBE SUBACK DISCONNECT GOODBYE AUTH"),
        [0x27] = (PlainKind.FourBytes, "CONNECT CONNACK"),
        [0x28] = (PlainKind.Byte, "CONNACK"),
        [0x29] = (PlainKind.Byte, "CONNACK"),
        [0x2A] = (PlainKind.Byte, "CONNACK"),
    };

    /// <summary>Reads a length and the properties that it says.</summary>
    /// <param name="cursor">Where.</param>
    /// <param name="packet">A name of the table; GOODBYE is a client's DISCONNECT, which alone may have a session expiry.</param>
    public static IReadOnlyList<PlainProperty> Read(PlainCursor cursor, string packet)
    {
        var part = cursor.Part(cursor.VariableBytes());
        var properties = new List<PlainProperty>();
        while (!part.IsAtEnd)
        {
            var id = part.Byte();
            if (!Table.TryGetValue(id, out var entry) || !entry.Packets.Split(' ').Contains(packet))
            {
                part.Fail();
                break;
            }

            part.FailIf(id is not (UserProperty or 0x0B) && properties.Exists(property => property.Id == id));
            properties.Add(ReadValue(part, id, entry.Kind));
        }

        cursor.FailIf(part.Failed);
        return properties;
    }

    public static byte[] Write(IReadOnlyList<PlainProperty> properties)
    {
        var bytes = new List<byte>();
        foreach (var property in properties)
        {
            bytes.Add((byte)property.Id);
            bytes.AddRange(WriteValue(property.Value, Table[property.Id].Kind));
        }

        return [.. PlainEncoder.VariableBytes(bytes.Count), .. bytes];
    }

    private static PlainProperty ReadValue(PlainCursor cursor, int id, PlainKind kind)
    {
        switch (kind)
        {
            case PlainKind.Text:
                return new PlainProperty(id, cursor.Text());
            case PlainKind.Binary:
                return PlainProperty.Of(id, cursor.Binary());
            case PlainKind.Pair:
                var name = cursor.Text();
                return PlainProperty.Pair(name, cursor.Text());
        }

        var number = kind switch
        {
            PlainKind.Byte => cursor.Byte(),
            PlainKind.TwoBytes => cursor.TwoBytes(),
            PlainKind.FourBytes => cursor.FourBytes(),
            _ => cursor.VariableBytes(),
        };
        // Brokers pass the payload's format on as its publisher wrote it.
        cursor.FailIf(kind == PlainKind.Byte && number > 1 && id != 0x01);
        cursor.FailIf(number == 0 && id is 0x0B or 0x21 or 0x23 or 0x27);
        return PlainProperty.Of(id, number);
    }

    private static IEnumerable<byte> WriteValue(string value, PlainKind kind) => kind switch
    {
        PlainKind.Byte => PlainEncoder.Number(Parse(value), 1),
        PlainKind.TwoBytes => PlainEncoder.Number(Parse(value), 2),
        PlainKind.FourBytes => PlainEncoder.Number(Parse(value), 4),
        PlainKind.VariableBytes => PlainEncoder.VariableBytes((int)Parse(value)),
        PlainKind.Binary => PlainEncoder.Binary(Convert.FromHexString(value)),
        _ => value.Split('\0').SelectMany(PlainEncoder.Text),
    };

    private static long Parse(string value) => long.Parse(value, System.Globalization.CultureInfo.InvariantCulture);
}

/// <summary>The types of properties' values.</summary>
internal enum PlainKind
{
    Byte,
    TwoBytes,
    FourBytes,
    VariableBytes,
    Text,
    Binary,
    Pair,
}

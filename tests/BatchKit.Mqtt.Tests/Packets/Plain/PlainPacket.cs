namespace BatchKit.Mqtt.Tests.Packets.Plain;

/// <summary>A packet as the specification's tables name its parts; the tests' own, apart from the package's types.</summary>
internal sealed record PlainPacket
{
    public required int Type { get; init; }

    public int Flags { get; init; }

    public int PacketId { get; init; }

    public string Topic { get; init; } = "";

    public byte[] Payload { get; init; } = [];

    public IReadOnlyList<PlainProperty> Properties { get; init; } = [];

    /// <summary>Reason codes; CONNACK has its flags before.</summary>
    public IReadOnlyList<int> Codes { get; init; } = [];

    /// <summary>Of SUBSCRIBE, with their options.</summary>
    public IReadOnlyList<(string Filter, int Options)> Filters { get; init; } = [];

    public PlainConnect? Connect { get; init; }

    /// <summary>All of it in one order, to compare and to show: properties by number, equal numbers in their own order.</summary>
    public string Show() =>
        $"{Type}/{Flags} id {PacketId}, topic {Topic}, payload {Convert.ToHexString(Payload)}, codes {string.Join(' ', Codes)}, filters {string.Join(' ', Filters)}, "
        + $"{string.Concat(Properties.OrderBy(static property => property.Id).Select(static property => $"{property.Id}={property.Value}; "))}{Connect?.Show()}";
}

/// <summary>A property by its number; its value as text: numbers in decimal, binary data in hexadecimal, a pair with a NUL between.</summary>
internal sealed record PlainProperty(int Id, string Value)
{
    public static PlainProperty Of(int id, long value) => new(id, value.ToString(System.Globalization.CultureInfo.InvariantCulture));

    public static PlainProperty Of(int id, ReadOnlySpan<byte> value) => new(id, Convert.ToHexString(value));

    public static PlainProperty Pair(string name, string value) => new(PlainProperties.UserProperty, $"{name}\0{value}");
}

/// <summary>What only a CONNECT says.</summary>
internal sealed record PlainConnect
{
    public required int Level { get; init; }

    public bool CleanStart { get; init; }

    public int KeepAlive { get; init; }

    public required string ClientId { get; init; }

    /// <summary>A PUBLISH's topic, payload, properties, and QoS and retain as its flags; null for none.</summary>
    public PlainPacket? Will { get; init; }

    public string? UserName { get; init; }

    public byte[]? Password { get; init; }

    public string Show() =>
        $"level {Level}, clean {CleanStart}, alive {KeepAlive}, client {ClientId}, will ({Will?.Show()}), user {UserName ?? "none"}, password {(Password is null ? "none" : Convert.ToHexString(Password))}";
}

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

namespace BatchKit.Mqtt.Tests.Packets.Plain;

/// <summary>A property by its number; its value as text: numbers in decimal, binary data in hexadecimal, a pair with a NUL between.</summary>
internal sealed record PlainProperty(int Id, string Value)
{
    public static PlainProperty Of(int id, long value) => new(id, value.ToString(System.Globalization.CultureInfo.InvariantCulture));

    public static PlainProperty Of(int id, ReadOnlySpan<byte> value) => new(id, Convert.ToHexString(value));

    public static PlainProperty Pair(string name, string value) => new(PlainProperties.UserProperty, $"{name}\0{value}");
}

namespace BatchKit.Mqtt.Packets;

/// <summary>A property that was received; its memory is the packet's.</summary>
internal ref struct Property
{
    public PropertyId Id;

    /// <summary>A number's value.</summary>
    public uint Number;

    /// <summary>A text's or binary data's value, and a user property's.</summary>
    public ReadOnlySpan<byte> Value;

    /// <summary>A user property's name.</summary>
    public ReadOnlySpan<byte> Name;
}

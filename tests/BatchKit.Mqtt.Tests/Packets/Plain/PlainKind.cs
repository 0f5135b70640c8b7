namespace BatchKit.Mqtt.Tests.Packets.Plain;

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

namespace BatchKit.Mqtt.Packets;

/// <summary>Which failures of CONNACK and PUBACK may pass (MQTT 5, section 2.4); every other failure is final. Both MQTT packages compile this table in.</summary>
internal static class ReasonTable
{
    /// <summary>True when another attempt with the same packet may succeed.</summary>
    /// <param name="code">A reason code of the protocol.</param>
    public static bool IsTransient(int code) => code
        is 0x80 // Unspecified error: it may be anything.
        or 0x83 // Implementation specific error: the same.
        or 0x88 // Server unavailable.
        or 0x89 // Server busy.
        or 0x8B // Server shutting down.
        or 0x91 // Packet identifier in use: the next attempt has another one.
        or 0x93 // Receive Maximum exceeded.
        or 0x96 // Message rate too high.
        or 0x97 // Quota exceeded.
        or 0x9C // Use another server, for now.
        or 0x9F; // Connection rate exceeded.
}

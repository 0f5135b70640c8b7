namespace BatchKit.Mqtt.Packets;

/// <summary>Which reason codes are known (MQTT 5, section 2.4).</summary>
internal static class ReasonCodes
{
    private const int FirstFailure = 0x80;

    /// <summary>Reads a code. A success must be one of the packet's own; of failures any is taken that the protocol has.</summary>
    /// <remarks>
    /// Section 3.4.2.1 and its likes list failures for each packet too. A broker that strays there has still said no: to close the connection for it would send the message
    /// again, and get the same answer, for ever.
    /// </remarks>
    /// <exception cref="MqttProtocolException">The code is unknown.</exception>
    public static MqttReasonCode Read(byte value, params ReadOnlySpan<MqttReasonCode> successes)
    {
        var code = (MqttReasonCode)value;
        var isKnown = value >= FirstFailure ? Enum.IsDefined(code) : successes.Contains(code);
        return isKnown ? code : throw MqttProtocolException.Forbidden($"A reason code, 0x{value:X2}, is not one of its packet.");
    }
}

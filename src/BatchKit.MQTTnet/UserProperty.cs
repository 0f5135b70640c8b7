using System.Buffers;
using System.Text;
using BatchKit.Mqtt.Packets;
using MQTTnet.Packets;

namespace BatchKit.MQTTnet;

/// <summary>Creates and checks a user property.</summary>
internal static class UserProperty
{
    public static MqttUserProperty Create(string name, string value) => new(name, new ReadOnlyMemory<byte>(Encoding.UTF8.GetBytes(value)));

    /// <summary>What is wrong with the property's value, as the end of a sentence; null when it is valid. It does not create a string.</summary>
    public static string? FindFaultInValue(MqttUserProperty property)
    {
        var value = property.ValueBuffer.Span;
        if (value.Length > PacketText.MaxBytes)
            return $"has more than {PacketText.MaxBytes} bytes in UTF-8";
        while (value.ContainsAnyExceptInRange((byte)' ', (byte)'~'))
        {
            if (Rune.DecodeFromUtf8(value, out var rune, out var bytes) != OperationStatus.Done)
                return "is not UTF-8";
            if (PacketText.FindFault(rune) is { } fault)
                return fault;
            value = value[bytes..];
        }

        return null;
    }

    public static long BytesOfValue(MqttUserProperty property) => property.ValueBuffer.Length;
}

using Microsoft.Extensions.Options;

namespace BatchKit.Mqtt.Publishing;

/// <summary>What a packet must hold for a buffer: a message with its topic, and in envelope mode a batch.</summary>
internal static class PacketLimits
{
    // What a packet has beside topic, header and payload.
    private const int FixedBytes = 64;

    /// <summary>What to leave for all but the message: a topic of the longest kind too, unless that would take most of the packet. Then a long one's packet may turn out too large when it is sent.</summary>
    public static int FindOverheadBytes(int maxPacketBytes) =>
        maxPacketBytes / 2 < OutputHandle.MaxNameBytes ? FixedBytes : OutputHandle.MaxNameBytes + FixedBytes;

    public static void ThrowIfTooSmall(string name, MqttOptions options, OutputBufferOptions buffer)
    {
        var overheadBytes = FindOverheadBytes(options.MaxPacketBytes);
        if (options.MaxPacketBytes < (long)buffer.MaxMessageBytes + overheadBytes)
        {
            throw Broken(name, options, $"{overheadBytes} bytes, which a packet takes beside its message, above {nameof(OutputBufferOptions)}.{nameof(OutputBufferOptions.MaxMessageBytes)} "
                + $"({buffer.MaxMessageBytes})");
        }

        // Beside its messages' bytes a frame has their lengths and headers.
        if (options.EnvelopePrefix is not null && options.MaxPacketBytes < 2L * buffer.MaxBatchBytes)
            throw Broken(name, options, $"twice {nameof(OutputBufferOptions)}.{nameof(OutputBufferOptions.MaxBatchBytes)} ({buffer.MaxBatchBytes})");
    }

    private static OptionsValidationException Broken(string name, MqttOptions options, string least) =>
        new(name, typeof(MqttOptions), [$"{nameof(MqttOptions.MaxPacketBytes)} ({options.MaxPacketBytes}) must be at least {least}."]);
}

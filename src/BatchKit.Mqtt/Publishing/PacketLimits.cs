using Microsoft.Extensions.Options;

namespace BatchKit.Mqtt.Publishing;

/// <summary>What a packet must hold for a buffer: a message with its topic, and in envelope mode a batch.</summary>
internal static class PacketLimits
{
    /// <summary>A topic of the longest kind, and what a packet has beside topic, header and payload.</summary>
    public const int OverheadBytes = OutputHandle.MaxNameBytes + 64;

    public static void ThrowIfTooSmall(string name, MqttOptions options, OutputBufferOptions buffer)
    {
        if (options.MaxPacketBytes < (long)buffer.MaxMessageBytes + OverheadBytes)
        {
            throw Broken(name, options, $"{OverheadBytes} bytes, which a topic may take, above {nameof(OutputBufferOptions)}.{nameof(OutputBufferOptions.MaxMessageBytes)} "
                + $"({buffer.MaxMessageBytes})");
        }

        // Beside its messages' bytes a frame has their lengths and headers.
        if (options.EnvelopePrefix is not null && options.MaxPacketBytes < 2L * buffer.MaxBatchBytes)
            throw Broken(name, options, $"twice {nameof(OutputBufferOptions)}.{nameof(OutputBufferOptions.MaxBatchBytes)} ({buffer.MaxBatchBytes})");
    }

    private static OptionsValidationException Broken(string name, MqttOptions options, string least) =>
        new(name, typeof(MqttOptions), [$"{nameof(MqttOptions.MaxPacketBytes)} ({options.MaxPacketBytes}) must be at least {least}."]);
}

using System.ComponentModel.DataAnnotations;

namespace BatchKit.Transports;

/// <summary>What a reader takes from one frame, checked before anything is allocated for it. A frame past a limit is refused, naming the limit.</summary>
public sealed class FrameLimits
{
    /// <summary>The limits that hold where none are given.</summary>
    internal static FrameLimits Shared { get; } = new();

    /// <summary>The largest frame in bytes; 128 MiB by default, the largest body that RabbitMQ takes.</summary>
    [Range(64, int.MaxValue)]
    public int MaxFrameBytes { get; init; } = 128 * 1024 * 1024;

    /// <summary>The most batches in a frame; 65,536 by default.</summary>
    [Range(1, int.MaxValue)]
    public int MaxBatches { get; init; } = 65_536;

    /// <summary>The most messages in all batches of a frame; 4,194,304 by default.</summary>
    [Range(1, int.MaxValue)]
    public int MaxMessages { get; init; } = 4 * 1024 * 1024;

    /// <summary>The most memory that reading a frame takes beside the frame itself (message ends, headers, names); 256 MiB by default.</summary>
    [Range(1024, int.MaxValue)]
    public int MaxDecodedBytes { get; init; } = 256 * 1024 * 1024;
}

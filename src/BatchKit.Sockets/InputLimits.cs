using System.ComponentModel.DataAnnotations;

namespace BatchKit.Broadcast;

/// <summary>How fast one client may send. A client that sends more is read later: what it sends too early waits in its own socket, and nothing is lost.</summary>
/// <remarks>The defaults are generous for people: a pasted page or a burst of game commands passes at once. A burst is what may come at once after a pause.</remarks>
public sealed class InputLimits
{
    /// <summary>The records that a client may send per second on average; 100 by default, from 1 to 10,000,000.</summary>
    [Range(1, 10_000_000)]
    public int RecordsPerSecond { get; set; } = 100;

    /// <summary>The most records at once; 1,000 by default, from 1 to 10,000,000.</summary>
    [Range(1, 10_000_000)]
    public int RecordBurst { get; set; } = 1000;

    /// <summary>The bytes that a client may send per second on average, including what its protocol adds, such as pings; compressed input counts as it is inflated. 64 KiB by default, at most 1 GiB.</summary>
    [Range(1, 1 << 30)]
    public int BytesPerSecond { get; set; } = 64 * 1024;

    /// <summary>The most bytes at once; 256 KiB by default, at most 1 GiB.</summary>
    [Range(1, 1 << 30)]
    public int ByteBurst { get; set; } = 256 * 1024;
}

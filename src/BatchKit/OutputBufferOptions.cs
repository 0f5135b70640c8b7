using System.ComponentModel.DataAnnotations;

namespace BatchKit;

/// <summary>Settings of an output buffer. Read once, when the buffer is made; a value outside its range stops the start and names the setting.</summary>
public sealed class OutputBufferOptions : IValidatableObject
{
    /// <summary>This process's node number, which its connections' handles and its frames carry; 0 by default.</summary>
    [Range(0, OutputHandle.MaxNode)]
    public int Node { get; set; }

    /// <summary>A batch is sealed before its payload passes this; 64 KiB by default. A larger single message is a batch of its own.</summary>
    [Range(256, 1 << 30)]
    public int MaxBatchBytes { get; set; } = 64 * 1024;

    /// <summary>A batch is sealed when it has this many messages; 10,000 by default.</summary>
    [Range(1, 1_000_000)]
    public int MaxBatchMessages { get; set; } = 10_000;

    /// <summary>The largest single message in bytes, payload and header; 1 MiB by default. A larger one is refused, naming this setting.</summary>
    [Range(1, 1 << 30)]
    public int MaxMessageBytes { get; set; } = 1024 * 1024;

    /// <summary>
    /// The most bytes accepted and not yet settled, in all; 64 MiB by default. Counts payloads, headers, and 4 bytes a message. At the limit
    /// <see cref="Overflow"/> says what happens. A batch reserves at least 256 bytes, so many small ones reach the limit before their payloads do.
    /// </summary>
    [Range(1024, 1L << 40)]
    public long MaxBufferedBytes { get; set; } = 64L * 1024 * 1024;

    /// <summary>What a write does that finds no room; waits by default, so that nothing is lost.</summary>
    [EnumDataType(typeof(OverflowPolicy))]
    public OverflowPolicy Overflow { get; set; } = OverflowPolicy.Wait;

    /// <summary>
    /// The longest that output written outside a scope waits for company; zero by default, which batches only what arrives while a send is
    /// under way.
    /// </summary>
    [TimeSpanRange("00:00:00", "00:01:00")]
    public TimeSpan Linger { get; set; } = TimeSpan.Zero;

    /// <summary>The most bytes in one send, counted as for <see cref="MaxBufferedBytes"/>; 1 MiB by default. A larger single batch is sent alone.</summary>
    [Range(256, 1 << 30)]
    public int MaxSendBytes { get; set; } = 1024 * 1024;

    /// <summary>The most batches in one send; 4,096 by default.</summary>
    [Range(1, 65_536)]
    public int MaxSendBatches { get; set; } = 4096;

    /// <summary>The longest one send may take before its token is cancelled and what it left is sent again; 10 s by default.</summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan SendTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>The longest from a batch's being queued until its delivery is given up after a failed send; 2 min by default.</summary>
    [TimeSpanRange("00:00:00.010", "1.00:00:00")]
    public TimeSpan DeliveryTimeout { get; set; } = TimeSpan.FromMinutes(2);

    /// <summary>The pause after a first failed send; 100 ms by default. It doubles with each further one, less a random part of up to a half.</summary>
    [TimeSpanRange("00:00:00.001", "00:01:00")]
    public TimeSpan RetryDelay { get; set; } = TimeSpan.FromMilliseconds(100);

    /// <summary>The longest pause between failed sends; 5 s by default.</summary>
    [TimeSpanRange("00:00:00.001", "01:00:00")]
    public TimeSpan MaxRetryDelay { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// A scope open for longer is closed by a watch, with a warning that names where it was opened; 1 min by default. The watch looks
    /// eight times in that span, so a scope may get an eighth more. Closing it later is harmless.
    /// </summary>
    [TimeSpanRange("00:00:00.010", "1.00:00:00")]
    public TimeSpan MaxScopeAge { get; set; } = TimeSpan.FromMinutes(1);

    /// <summary>A handle unused for this long gives its memory back; 1 min by default. Its next write makes it anew.</summary>
    [TimeSpanRange("00:00:00.010", "1.00:00:00")]
    public TimeSpan HandleIdleTimeout { get; set; } = TimeSpan.FromMinutes(1);

    /// <summary>With more live handles than this, an idle one gives its memory back at once; 65,536 by default.</summary>
    [Range(0, int.MaxValue)]
    public int MaxIdleHandles { get; set; } = 65_536;

    /// <summary>The longest that a stop waits for what is queued; 10 s by default. What is left then is dropped, counted and logged.</summary>
    [TimeSpanRange("00:00:00", "01:00:00")]
    public TimeSpan DrainTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (MaxMessageBytes + MessageOverheadBytes > MaxBufferedBytes)
        {
            yield return Broken($"{nameof(MaxMessageBytes)} ({MaxMessageBytes}) must be below {nameof(MaxBufferedBytes)} ({MaxBufferedBytes}), "
                + "or the largest message would never find room.", nameof(MaxMessageBytes));
        }

        if (MaxRetryDelay < RetryDelay)
            yield return Broken($"{nameof(MaxRetryDelay)} ({MaxRetryDelay}) must not be below {nameof(RetryDelay)} ({RetryDelay}).", nameof(MaxRetryDelay));
        if (Linger >= MaxScopeAge)
            yield return Broken($"{nameof(Linger)} ({Linger}) must be below {nameof(MaxScopeAge)} ({MaxScopeAge}).", nameof(Linger));
    }

    /// <summary>What the buffer reserves for a message beside its payload and header: the place where it ends.</summary>
    internal const int MessageOverheadBytes = sizeof(int);

    private static ValidationResult Broken(string text, string member) => new(text, [member]);
}

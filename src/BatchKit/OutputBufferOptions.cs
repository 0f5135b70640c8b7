using System.ComponentModel.DataAnnotations;
using System.Globalization;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Options;

namespace BatchKit;

/// <summary>Settings of an output buffer.</summary>
/// <remarks>
/// The buffer reads them once, when it is created; later changes have no effect. An invalid value stops the start with an error that names the
/// setting, its value and its limits. Each limit below includes both ends.
/// </remarks>
public sealed class OutputBufferOptions : IValidatableObject
{
    /// <summary>What the buffer reserves for a message besides its payload and header: the position where it ends.</summary>
    internal const int MessageOverheadBytes = sizeof(int);

    /// <summary>
    /// This process's node number, from 0 to <see cref="OutputHandle.MaxNode"/>; null by default. The handles of its connections and the frames
    /// that it sends contain it, so processes that exchange frames need different numbers.
    /// </summary>
    /// <remarks>
    /// With null, the buffers of a container share a number. A buffer that receives from a broker leases it there, so that no other process has it; it is at least <see cref="NodeNumber.FirstLeased"/>. Without such a buffer it is 0. A number that you
    /// set is checked when the broker allows it: while another process holds it, the host does not start. <see cref="NodeNumber"/> has the number in use. Set a number when other processes refer to it,
    /// as <c>DestinationNode</c> does.
    /// </remarks>
    [NumberRange(0, OutputHandle.MaxNode)]
    public int? Node { get; set; }

    /// <summary>The number in use, when a container creates the buffer.</summary>
    internal NodeNumber? NumberInUse { get; set; }

    /// <summary>Keys that sign the frames that leave this process and verify those that arrive; none by default: frames are not signed, and every frame is accepted. The first key signs, all verify.</summary>
    /// <remarks>
    /// Each key has at least <see cref="FrameSigner.MinKeyBytes"/> random bytes; in configuration it is base64, and keys there replace earlier ones. Each process that receives frames needs the first key of every sender. Set keys when others may
    /// write to the broker; <see cref="FrameSigner"/> explains how to change keys.
    /// </remarks>
    public IList<byte[]> FrameKeys { get; } = [];

    /// <summary>
    /// The largest batch in bytes, counted as a frame takes it: payloads, headers and 4 bytes a message; 64 KiB by default, from 256 bytes to 1 GiB. The buffer seals a batch before a message would exceed it.
    /// A message that is larger alone is a batch of its own. A header object that is written again at once counts 2 bytes. A route whose frames or packets are smaller is refused at the start.
    /// </summary>
    [NumberRange(256, 1 << 30)]
    public int MaxBatchBytes { get; set; } = 64 * 1024;

    /// <summary>The most messages in a batch; 10,000 by default, at most 1,000,000. The buffer seals a batch that has as many.</summary>
    [NumberRange(1, 1_000_000)]
    public int MaxBatchMessages { get; set; } = 10_000;

    /// <summary>
    /// The largest message in bytes, payload and header; 1 MiB by default, at most 1 GiB and 4 bytes below <see cref="MaxBufferedBytes"/>. A write of a larger one throws <see cref="OutputOverflowException"/>.
    /// </summary>
    [NumberRange(1, 1 << 30)]
    public int MaxMessageBytes { get; set; } = 1024 * 1024;

    /// <summary>
    /// The buffer's capacity: the most bytes that are accepted and not yet acknowledged, failed or dropped; 64 MiB by default, from 1 KiB to 1 TiB. Payloads, headers
    /// and 4 bytes a message count. A batch that grows reserves more in advance, up to 64 KiB (that of a <see cref="MessageWriter"/> up to 128 KiB), and returns what it has not used when it is sealed.
    /// <see cref="Overflow"/> decides what happens when the buffer is full. With several routes, half of it, or what the largest message leaves, is divided among them and output for several, so that a route whose output does not leave can't take what the others
    /// need; they share the other half.
    /// </summary>
    [NumberRange(1024, 1L << 40)]
    public long MaxBufferedBytes { get; set; } = 64L * 1024 * 1024;

    /// <summary>
    /// The most bytes of one handle that are accepted and not yet settled, counted as for <see cref="MaxBufferedBytes"/>; null by default: three times what the handle's routes have left, which is three quarters for one handle. From
    /// <see cref="MaxMessageBytes"/> + 4 bytes to 1 TiB. So handles whose output does not leave can't take what the others need, however many they are. At the limit, <see cref="Overflow"/> decides, and the policy that drops the oldest drops the handle's own.
    /// </summary>
    [NumberRange(1, 1L << 40)]
    public long? MaxBufferedBytesPerHandle { get; set; }

    /// <summary>What happens when the buffer is full; <see cref="OverflowPolicy.Wait"/> by default: <c>WriteAsync</c> waits, <c>Write</c> throws.</summary>
    public OverflowPolicy Overflow { get; set; } = OverflowPolicy.Wait;

    /// <summary>Called when messages were dropped, refused or given up, with their handle, the reason and how many; null by default: no one is called.</summary>
    /// <remarks>
    /// Calls do not overlap and run on the thread pool, behind the loss. What is lost during a call is added up and reported by the next ones. A callback that is slow or throws holds up neither a writer nor a route; what it throws is
    /// counted, and health is degraded. The end of the buffer waits for the last calls, at most for <see cref="DrainTimeout"/>.
    /// </remarks>
    public Action<DroppedMessages>? MessagesDropped { get; set; }

    /// <summary>
    /// How long a message outside a scope may be delayed so that others can join its batch; zero by default, at most 1 min and below <see cref="MaxScopeAge"/>. With zero, only
    /// messages that are written during a send share the next batch.
    /// </summary>
    [TimeSpanRange("00:00:00", "00:01:00")]
    public TimeSpan Linger { get; set; } = TimeSpan.Zero;

    /// <summary>
    /// The most bytes in one send, counted as <see cref="MaxBatchBytes"/> are; 8 MiB by default, from 256 bytes to 1 GiB. A batch that is larger alone is sent alone.
    /// What one scope held leaves in one send if it fits. A transport may ask for smaller sends: those over MQTT have at most 1 MiB.
    /// </summary>
    [NumberRange(256, 1 << 30)]
    public int MaxSendBytes { get; set; } = 8 * 1024 * 1024;

    /// <summary>The most batches in one send; 4,096 by default, at most 65,536.</summary>
    [NumberRange(1, 65_536)]
    public int MaxSendBatches { get; set; } = 4096;

    /// <summary>
    /// The time limit of one send; 10 s by default, from 10 ms to 1 h. At the limit its token is cancelled, and what is not acknowledged is
    /// sent again.
    /// </summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan SendTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>
    /// How long a batch is retried, counted from when it was queued, or from the first failed send of its route since one succeeded, if that is later; 2 min
    /// by default, from 10 ms to 1 day. A batch that is older when a send of it fails is given up, and its messages count as failed.
    /// </summary>
    [TimeSpanRange("00:00:00.010", "1.00:00:00")]
    public TimeSpan DeliveryTimeout { get; set; } = TimeSpan.FromMinutes(2);

    /// <summary>
    /// The pause after a first failed send; 100 ms by default, from 1 ms to 1 min. It doubles with each consecutive failure, up to
    /// <see cref="MaxRetryDelay"/>, and is shortened by a random part of up to a half.
    /// </summary>
    [TimeSpanRange("00:00:00.001", "00:01:00")]
    public TimeSpan RetryDelay { get; set; } = TimeSpan.FromMilliseconds(100);

    /// <summary>The longest pause after a failed send; 5 s by default, at most 1 h and not below <see cref="RetryDelay"/>.</summary>
    [TimeSpanRange("00:00:00.001", "01:00:00")]
    public TimeSpan MaxRetryDelay { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// How long a scope may stay open; 1 min by default, from 10 ms to 1 day. The buffer checks at least eight times in that span, closes an older scope,
    /// and logs a warning that names where it was opened. Disposing that scope later is harmless. Where scopes of several flows
    /// overlap on one handle without a gap, what they hold back is sent after twice that span, with a warning. A scope that was opened with a limit of its own may stay open for any time.
    /// </summary>
    [TimeSpanRange("00:00:00.010", "1.00:00:00")]
    public TimeSpan MaxScopeAge { get; set; } = TimeSpan.FromMinutes(1);

    /// <summary>
    /// How long the buffer keeps the memory of a handle that is not used; 1 min by default, from 10 ms to 1 day. The next write re-creates it.
    /// </summary>
    [TimeSpanRange("00:00:00.010", "1.00:00:00")]
    public TimeSpan HandleIdleTimeout { get; set; } = TimeSpan.FromMinutes(1);

    /// <summary>The most handles whose memory is kept while they are not used; 65,536 by default. Above it, the buffer frees all idle handles each time it has added an eighth as many new ones.</summary>
    [NumberRange(0, int.MaxValue)]
    public int MaxIdleHandles { get; set; } = 65_536;

    /// <summary>
    /// How long a stop may take to send what is pending; 10 s by default, at most 1 h. Messages that are still pending then are dropped, counted
    /// and logged. The stop's token may end it earlier, as that of a host does after <c>HostOptions.ShutdownTimeout</c>.
    /// </summary>
    [TimeSpanRange("00:00:00", "01:00:00")]
    public TimeSpan DrainTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>Reads the settings that a section has. Keys in the section replace the earlier ones: one that was taken out must not go on signing.</summary>
    internal static void Read(IConfiguration section, OutputBufferOptions options)
    {
        // Before the binder, which adds keys to the earlier ones, and whose error has the key's text.
        var keys = SectionReader.ReadList(section, nameof(FrameKeys), ReadKey);
        section.Bind(options);
        if (keys is null)
            return;
        // A secret that the environment lacks must not turn signing off.
        if (keys.Count == 0)
            throw new FormatException($"'{section.GetSection(nameof(FrameKeys)).Path}' has no key. Leave it out to sign nothing.");
        options.FrameKeys.Clear();
        foreach (var key in keys)
            options.FrameKeys.Add(key);
    }

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (!Enum.IsDefined(Overflow))
            yield return Invalid(nameof(Overflow), Overflow, $"must be one of {string.Join(", ", Enum.GetNames<OverflowPolicy>())}");
        if (MaxMessageBytes + MessageOverheadBytes > MaxBufferedBytes)
        {
            yield return Invalid(nameof(MaxMessageBytes), MaxMessageBytes,
                $"must be at least {MessageOverheadBytes} below {nameof(MaxBufferedBytes)} ({MaxBufferedBytes}), or the buffer can never accept the largest message");
        }

        if (MaxBufferedBytesPerHandle < MaxMessageBytes + (long)MessageOverheadBytes)
        {
            yield return Invalid(nameof(MaxBufferedBytesPerHandle), MaxBufferedBytesPerHandle!,
                $"must be at least {MessageOverheadBytes} above {nameof(MaxMessageBytes)} ({MaxMessageBytes}), or a handle can never have the largest message");
        }

        if (MaxRetryDelay < RetryDelay)
            yield return Invalid(nameof(MaxRetryDelay), MaxRetryDelay, $"must not be below {nameof(RetryDelay)} ({RetryDelay})");
        if (Linger >= MaxScopeAge)
            yield return Invalid(nameof(Linger), Linger, $"must be below {nameof(MaxScopeAge)} ({MaxScopeAge})");

        // A key's own bytes are no part of the error.
        for (var index = 0; index < FrameKeys.Count; index++)
        {
            var key = FrameKeys[index];
            if (key is not { Length: >= FrameSigner.MinKeyBytes })
                yield return Invalid($"{nameof(FrameKeys)}[{index}]", key is null ? "null" : $"{key.Length} bytes", $"must have at least {FrameSigner.MinKeyBytes} bytes");
        }
    }

    private static byte[] ReadKey(IConfigurationSection section)
    {
        var text = section.Value ?? "";
        var key = new byte[text.Length];
        return Convert.TryFromBase64String(text, key, out var length) && length > 0 ? key[..length] : throw new FormatException($"The key at '{section.Path}' is not base64.");
    }

    private static ValidationResult Invalid(string setting, object value, string rule) => new($"{nameof(OutputBufferOptions)}.{setting} ({value}) {rule}.");
}

/// <summary>What happens to a write when the buffer is full (<see cref="OutputBufferOptions.MaxBufferedBytes"/>).</summary>
/// <remarks>
/// <list type="table">
/// <listheader><term>policy</term><description><c>TryWrite</c> / <c>Write</c> / <c>WriteAsync</c></description></listheader>
/// <item><term><see cref="Wait"/></term><description>false / throws, naming the limit / seals what is open, then waits</description></item>
/// <item><term><see cref="Fail"/></term><description>false / throws / throws</description></item>
/// <item><term><see cref="DropNewest"/></term><description>false, counted / drops, counted / drops, counted</description></item>
/// <item><term><see cref="DropOldest"/></term><description>true; the oldest batches that are not being sent are dropped, counted / the same / the same</description></item>
/// </list>
/// </remarks>
public enum OverflowPolicy
{
    /// <summary><c>WriteAsync</c> waits until the buffer has capacity; <c>TryWrite</c> returns false and <c>Write</c> throws. The default.</summary>
    Wait = 0,

    /// <summary><c>TryWrite</c> returns false; <c>Write</c> and <c>WriteAsync</c> throw <see cref="OutputOverflowException"/>.</summary>
    Fail = 1,

    /// <summary>The new message is dropped and counted in <see cref="OutputStatistics.RefusedMessages"/>.</summary>
    DropNewest = 2,

    /// <summary>
    /// The oldest batches that are not being sent are dropped and counted, until the new message fits: first queued ones, then those that open
    /// scopes hold. When everything in the buffer is being sent, the new message is dropped as with <see cref="DropNewest"/>.
    /// </summary>
    DropOldest = 3,
}

/// <summary>Limits an option to whole numbers between two others, both included. Unlike <see cref="RangeAttribute"/>, its error has the value.</summary>
[AttributeUsage(AttributeTargets.Property)]
internal sealed class NumberRangeAttribute(long minimum, long maximum) : ValidationAttribute
{
    public long Minimum => minimum;

    public long Maximum => maximum;

    protected override ValidationResult? IsValid(object? value, ValidationContext validationContext)
    {
        if (value is null)
            return ValidationResult.Success;
        var number = Convert.ToInt64(value, CultureInfo.InvariantCulture);
        return number >= minimum && number <= maximum
            ? ValidationResult.Success
            : new ValidationResult($"{validationContext.DisplayName} ({number}) must be between {minimum} and {maximum}.");
    }
}

/// <summary>Checks the options, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class OutputBufferOptionsValidator : IValidateOptions<OutputBufferOptions>;

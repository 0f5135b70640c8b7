using System.Collections.Immutable;
using System.Text;

namespace BatchKit;

/// <summary>What a message carries besides its bytes. A plain message has no header, and costs nothing for it.</summary>
/// <remarks>Immutable: create one, keep it, and use it for any number of writes from any thread.</remarks>
public sealed class MessageHeader
{
    /// <summary>
    /// The longest <see cref="Key"/>, <see cref="ContentType"/>, <see cref="Type"/>, <see cref="ReplyTo"/>, property name or property value, in UTF-8 bytes, and the longest
    /// <see cref="CorrelationData"/>: 65,535 bytes. A write with a longer one throws <see cref="ArgumentException"/>.
    /// </summary>
    public const int MaxTextBytes = ushort.MaxValue;

    private static readonly TimeSpan LongestTimeToLive = TimeSpan.FromDays(365);

    // Measured on first use; two threads may do so at once without harm.
    private int _encodedBytes;

    /// <summary>The header of a prompt that carries nothing else.</summary>
    public static MessageHeader Prompt { get; } = new() { Kind = MessageKind.Prompt };

    /// <summary>The header of a control message.</summary>
    public static MessageHeader Control { get; } = new() { Kind = MessageKind.Control };

    /// <summary>What the message is for; <see cref="MessageKind.Output"/> by default.</summary>
    public MessageKind Kind { get; init; }

    /// <summary>Connections that do not get a group's message, such as the speaker's own; empty by default.</summary>
    public ImmutableArray<OutputHandle> ExcludedConnections { get; init; } = [];

    /// <summary>A key that a transport may order, group or deduplicate messages by; null by default.</summary>
    public string? Key { get; init; }

    /// <summary>The payload's media type, such as <c>application/json</c>; null by default.</summary>
    public string? ContentType { get; init; }

    /// <summary>The name of the payload's type, which <see cref="MessageDispatcher"/> chooses the handler by; null by default.</summary>
    public string? Type { get; init; }

    /// <summary>Where the sender expects the answer: the name of a handle, such as MQTT 5's response topic; null by default.</summary>
    public string? ReplyTo { get; init; }

    /// <summary>Bytes that the sender wants back with the answer, such as MQTT 5's correlation data; empty by default.</summary>
    public ImmutableArray<byte> CorrelationData { get; init; } = [];

    /// <summary>MQTT's retain flag; false by default. In a message that you write it asks the broker to keep the message for later subscribers; in a received one it means that the broker had kept it.</summary>
    public bool IsRetained { get; init; }

    /// <summary>How long the message may wait in this buffer; null, the default, for as long as it takes. Above zero, and at most 365 days.</summary>
    /// <remarks>
    /// One that is older when its batch is to be sent for the first time is dropped unsent, counted (<see cref="OutputStatistics.ExpiredMessages"/>), and reported as lost (<see cref="DropReason.Expired"/>). Until then it keeps its
    /// capacity. What was sent once is sent again however old it is, because it may have arrived; of several routes, the first decides.
    /// Behind the buffer only sessions know the time, and drop what is older when they forward it: frames and brokers do not carry it.
    /// </remarks>
    public TimeSpan? TimeToLive { get; init; }

    /// <summary>Further properties in order, for transports that support them, such as MQTT 5's user properties; empty by default.</summary>
    public ImmutableArray<KeyValuePair<string, string>> Properties { get; init; } = [];

    /// <summary>The most bytes that it needs in a frame, which the buffer reserves for it.</summary>
    internal int EncodedBytes => _encodedBytes != 0 ? _encodedBytes : _encodedBytes = MeasureEncoded();

    /// <summary>True when it has a part that few messages have. A frame writes these parts as an extension of the header.</summary>
    internal bool IsExtended => ReplyTo is not null || IsRetained || !CorrelationData.IsDefaultOrEmpty;

    /// <summary>Copies the header with another one's type, and with its content type where this one has none.</summary>
    internal MessageHeader WithTypeOf(MessageHeader other) => Copy(ContentType ?? other.ContentType, other.Type, TimeToLive, ExcludedConnections);

    /// <summary>Copies the header with another time.</summary>
    internal MessageHeader WithTimeToLive(TimeSpan time) => Copy(ContentType, Type, time, ExcludedConnections);

    /// <summary>The header without its exclusions, which have been applied.</summary>
    internal MessageHeader WithoutExclusions() => ExcludedConnections.IsDefaultOrEmpty ? this : Copy(ContentType, Type, TimeToLive, excluded: []);

    /// <summary>Whether all who would get an older latest value get the newer one, so that they need not get both.</summary>
    internal static bool MayReplace(MessageHeader? newer, MessageHeader? older)
    {
        if (newer is null || newer.ExcludedConnections.IsDefaultOrEmpty || ReferenceEquals(newer, older))
            return true;
        var excluded = older is null ? default : older.ExcludedConnections.AsSpan();
        foreach (var connection in newer.ExcludedConnections)
        {
            if (!excluded.Contains(connection))
                return false;
        }

        return true;
    }

    private MessageHeader Copy(string? contentType, string? type, TimeSpan? timeToLive, ImmutableArray<OutputHandle> excluded) => new()
    {
        Kind = Kind,
        ExcludedConnections = excluded,
        Key = Key,
        ContentType = contentType,
        Type = type,
        ReplyTo = ReplyTo,
        CorrelationData = CorrelationData,
        IsRetained = IsRetained,
        TimeToLive = timeToLive,
        Properties = Properties,
    };

    // Three bytes are the most that UTF-8 needs for a UTF-16 unit; ten cover a number and every length before a text.
    private int MeasureEncoded()
    {
        const int bytesPerUnit = 3;
        const int bytesPerNumber = 10;
        ThrowIfUnknown(Kind);
        ThrowIfOutOfRange(TimeToLive);
        var units = 0L + UnitsOf(Key, nameof(Key)) + UnitsOf(ContentType, nameof(ContentType)) + UnitsOf(Type, nameof(Type)) + UnitsOf(ReplyTo, nameof(ReplyTo));
        var excluded = ExcludedConnections.IsDefault ? [] : ExcludedConnections;
        var properties = Properties.IsDefault ? [] : Properties;
        var total = bytesPerNumber * (4L + excluded.Length + (2L * properties.Length));
        // No frame has it, but the buffer keeps a deadline.
        if (TimeToLive is not null)
            total += bytesPerNumber;
        if (IsExtended)
            total += (bytesPerNumber * 3) + BytesOf(CorrelationData);
        foreach (var property in properties)
            units += UnitsOf(NotNull(property.Key, "property name"), "property name") + UnitsOf(NotNull(property.Value, "property value"), "property value");

        // A header that is larger than this says is above every limit for a message.
        return (int)Math.Min(total + (units * bytesPerUnit), int.MaxValue);
    }

    private static int BytesOf(ImmutableArray<byte> correlation)
    {
        var bytes = correlation.IsDefault ? 0 : correlation.Length;
        if (bytes > MaxTextBytes)
            throw Refusal($"A header's {nameof(CorrelationData)} has {bytes} bytes, more than {nameof(MaxTextBytes)} ({MaxTextBytes}).");
        return bytes;
    }

    // Checked at the write: in a frame, an unknown kind, or a text that is null or too long, would fail every send, and block the batches behind it.
    private static void ThrowIfUnknown(MessageKind kind)
    {
        if (kind is < MessageKind.Output or > MessageKind.Control)
            throw Refusal($"A header's {nameof(Kind)} ({(int)kind}) must be one of {string.Join(", ", Enum.GetNames<MessageKind>())}.");
    }

    private static void ThrowIfOutOfRange(TimeSpan? timeToLive)
    {
        if (timeToLive is { } time && (time <= TimeSpan.Zero || time > LongestTimeToLive))
            throw Refusal($"A header's {nameof(TimeToLive)} ({time}) must be above zero and at most {LongestTimeToLive}. Leave it out for a message that may wait for any time.");
    }

    private static string NotNull(string? text, string part) =>
        text ?? throw Refusal($"A header's {part} is null. Use an empty text, or leave the property out.");

    private static int UnitsOf(string? text, string part)
    {
        if (text is null)
            return 0;
        if (text.Length > MaxTextBytes / 3 && Encoding.UTF8.GetByteCount(text) is > MaxTextBytes and var bytes)
            throw Refusal($"A header's {part} has {bytes} UTF-8 bytes, more than {nameof(MaxTextBytes)} ({MaxTextBytes}). Use a shorter text, or write it in the payload.");
        return text.Length;
    }

    // Whatever takes a header names its parameter so.
    private static ArgumentException Refusal(string sentence, string parameter = "header") => new(sentence, parameter);
}

/// <summary>What a message is for. The last hop treats each kind differently.</summary>
public enum MessageKind
{
    /// <summary>Text or data for the destination; the kind of a plain message.</summary>
    Output = 0,

    /// <summary>A prompt: output that a telnet hop ends with GA or EOR (RFC 854, RFC 885).</summary>
    Prompt = 1,

    /// <summary>Tells the last hop what to do, in order with the output around it. See <see cref="ControlMessage"/>.</summary>
    Control = 2,
}

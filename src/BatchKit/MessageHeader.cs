using System.Collections.Immutable;
using System.Text;

namespace BatchKit;

/// <summary>What a message says about itself beyond its bytes. A plain write has none and pays nothing for it.</summary>
/// <remarks>Immutable: make one, keep it, and use it for as many writes as you like, from any thread.</remarks>
public sealed class MessageHeader
{
    /// <summary>The longest <see cref="Key"/>, <see cref="ContentType"/>, property name or property value, in UTF-8 bytes: 65,535.</summary>
    public const int MaxTextBytes = ushort.MaxValue;

    // Measured on first use; writing it twice at once does no harm.
    private int _encodedBytes;

    /// <summary>A header that only says that the message is a prompt.</summary>
    public static MessageHeader Prompt { get; } = new() { Kind = MessageKind.Prompt };

    /// <summary>A header that only says that the message is a control message.</summary>
    public static MessageHeader Control { get; } = new() { Kind = MessageKind.Control };

    /// <summary>What the message is for; output by default.</summary>
    public MessageKind Kind { get; init; }

    /// <summary>Connections that must not get the message, such as the one that wrote it; empty by default.</summary>
    public ImmutableArray<OutputHandle> ExcludedConnections { get; init; } = [];

    /// <summary>A key that a transport may order, group or deduplicate by; none by default.</summary>
    public string? Key { get; init; }

    /// <summary>The payload's media type, such as <c>application/json</c>; none by default.</summary>
    public string? ContentType { get; init; }

    /// <summary>The name of the payload's type, by which a receiver dispatches typed messages; none by default.</summary>
    public string? Type { get; init; }

    /// <summary>Properties that a transport may know, such as MQTT 5's user properties, in order; empty by default.</summary>
    public ImmutableArray<KeyValuePair<string, string>> Properties { get; init; } = [];

    /// <summary>At most what it takes in a frame, which is what the buffer reserves for it.</summary>
    internal int EncodedBytes => _encodedBytes != 0 ? _encodedBytes : _encodedBytes = MeasureEncoded();

    /// <summary>A copy that also says the type, and the content type where it has none, as the other header does.</summary>
    internal MessageHeader WithTypeOf(MessageHeader other) => new()
    {
        Kind = Kind,
        ExcludedConnections = ExcludedConnections,
        Key = Key,
        ContentType = ContentType ?? other.ContentType,
        Type = other.Type,
        Properties = Properties,
    };

    // Three bytes are the most that UTF-8 needs for a UTF-16 unit; ten cover a number and every length before a text.
    private int MeasureEncoded()
    {
        const int bytesPerUnit = 3;
        const int bytesPerNumber = 10;
        ThrowIfUnknown(Kind);
        var units = UnitsOf(Key ?? string.Empty) + UnitsOf(ContentType ?? string.Empty) + UnitsOf(Type ?? string.Empty);
        var excluded = ExcludedConnections.IsDefault ? [] : ExcludedConnections;
        var properties = Properties.IsDefault ? [] : Properties;
        var total = bytesPerNumber * (4 + excluded.Length + (2 * properties.Length));
        foreach (var property in properties)
            units += UnitsOf(property.Key) + UnitsOf(property.Value);
        return total + (units * bytesPerUnit);
    }

    // Both are refused here, at the write: in a frame they would fail every send, and all that waits behind it.
    private static void ThrowIfUnknown(MessageKind kind)
    {
        if (kind is < MessageKind.Output or > MessageKind.Control)
            throw new ArgumentException($"A header's {nameof(Kind)} ({(int)kind}) is not one of {nameof(MessageKind)}.", nameof(kind));
    }

    private static int UnitsOf(string text)
    {
        if (text.Length > MaxTextBytes / 3 && Encoding.UTF8.GetByteCount(text) > MaxTextBytes)
            throw new ArgumentException($"A header's text has more than {nameof(MaxTextBytes)} ({MaxTextBytes}) UTF-8 bytes.", nameof(text));
        return text.Length;
    }
}

using System.Collections.Immutable;

namespace BatchKit;

/// <summary>What a message says about itself beyond its bytes. A plain write has none and pays nothing for it.</summary>
/// <remarks>Immutable: make one, keep it, and use it for as many writes as you like, from any thread.</remarks>
public sealed class MessageHeader
{
    /// <summary>The longest <see cref="Key"/>, <see cref="ContentType"/>, property name or property value, in UTF-8 bytes: 65,535.</summary>
    public const int MaxTextBytes = ushort.MaxValue;

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

    /// <summary>Properties that a transport may know, such as MQTT 5's user properties, in order; empty by default.</summary>
    public ImmutableArray<KeyValuePair<string, string>> Properties { get; init; } = [];
}

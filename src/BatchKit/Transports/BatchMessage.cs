namespace BatchKit.Transports;

/// <summary>One message of a batch: its bytes and, when it needs one, a header.</summary>
/// <remarks>The payload's memory is the batch's, and is valid as long as that is.</remarks>
/// <param name="Payload">The message's bytes.</param>
/// <param name="Header">What it says about itself; null for a plain message.</param>
public readonly record struct BatchMessage(ReadOnlyMemory<byte> Payload, MessageHeader? Header = null)
{
    /// <summary>What the message is for; output when it has no header.</summary>
    public MessageKind Kind => Header?.Kind ?? MessageKind.Output;
}

namespace BatchKit.Broadcast.Connections;

/// <summary>Messages for one connection as they go over its wire, one behind the other.</summary>
/// <param name="bytes">Their bytes.</param>
/// <param name="messages">How many messages they are; zero for a protocol's own bytes, which are not counted.</param>
/// <param name="owner">What shares the bytes, so that a queue may keep them; null when a queue must copy them.</param>
/// <param name="offset">Where they begin in the owner.</param>
internal readonly ref struct OutputRun(ReadOnlySpan<byte> bytes, int messages, SharedBuffer? owner = null, int offset = 0)
{
    public ReadOnlySpan<byte> Bytes { get; } = bytes;

    public int Messages { get; } = messages;

    public SharedBuffer? Owner { get; } = owner;

    public int Offset { get; } = offset;

    /// <summary>What is counted.</summary>
    public Amount Amount => Messages == 0 ? default : new Amount(Messages, Bytes.Length);
}

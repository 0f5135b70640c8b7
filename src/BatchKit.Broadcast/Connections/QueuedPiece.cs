namespace BatchKit.Broadcast.Connections;

/// <summary>Output that waits for its client to read.</summary>
/// <param name="Owner">Shares the bytes; released when they are written or dropped.</param>
/// <param name="Bytes">What is still to be written.</param>
/// <param name="Amount">What is counted when all of it is written; nothing for a protocol's own bytes.</param>
/// <param name="NextWire">Makes what takes over behind it, such as a compressing wire; mostly null.</param>
internal readonly record struct QueuedPiece(SharedBuffer Owner, ReadOnlyMemory<byte> Bytes, Amount Amount, Func<IWire, IWire>? NextWire);

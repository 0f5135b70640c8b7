namespace BatchKit.Broadcast;

/// <summary>One record that a client sent.</summary>
/// <param name="Payload">Its bytes, without what cut it; a telnet client's in UTF-8. Valid until the handler's task has ended.</param>
/// <param name="Kind">What it is.</param>
public readonly record struct ReceivedRecord(ReadOnlyMemory<byte> Payload, RecordKind Kind = RecordKind.Data);

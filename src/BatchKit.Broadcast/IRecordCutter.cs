namespace BatchKit.Broadcast;

/// <summary>Cuts a TCP client's bytes into records. Without state: one serves all connections, from any thread.</summary>
/// <remarks>What cuts a record, such as a length before it, may take 256 bytes at most: a client that sends more without a record is disconnected.</remarks>
public interface IRecordCutter
{
    /// <summary>Looks for a record at the start of the bytes.</summary>
    /// <param name="bytes">What was received and not cut yet; never empty.</param>
    /// <param name="maxRecordBytes">The longest record, without what cuts it; <see cref="BroadcastOptions.MaxRecordBytes"/>.</param>
    /// <param name="record">Where the record is, when there is one.</param>
    /// <param name="consumedBytes">How many bytes the record took, with what cuts it; more than zero when there is one.</param>
    CutResult Cut(ReadOnlySpan<byte> bytes, int maxRecordBytes, out Range record, out int consumedBytes);
}

namespace BatchKit.Broadcast.Receiving;

/// <summary>Makes records of one connection's bytes.</summary>
internal interface IRecordReader
{
    /// <summary>Which rule or limit the client broke, when <see cref="TryRead"/> returned false.</summary>
    string? Failure => null;

    /// <summary>Reads as many whole records as there are, or <see cref="RecordBatch.MaxRecords"/>: it is called again then.</summary>
    /// <param name="received">What was received and not consumed yet; it may be changed in place.</param>
    /// <param name="records">Gets the records; their bytes may lie in what was received, and must stay unchanged until the next call.</param>
    /// <param name="consumedBytes">What need not be shown again.</param>
    /// <returns>False when the client broke a rule or a limit and is to be disconnected.</returns>
    bool TryRead(Memory<byte> received, List<ReceivedRecord> records, out int consumedBytes);
}

namespace BatchKit.Broadcast.Tests.Receiving;

/// <summary>Finds empty records for ever.</summary>
internal sealed class IdleCutter : IRecordCutter
{
    public CutResult Cut(ReadOnlySpan<byte> bytes, int maxRecordBytes, out Range record, out int consumedBytes)
    {
        (record, consumedBytes) = (default, 0);
        return CutResult.Record;
    }
}

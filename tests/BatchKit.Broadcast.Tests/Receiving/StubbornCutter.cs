namespace BatchKit.Broadcast.Tests.Receiving;

/// <summary>Never finds a record, and never minds.</summary>
internal sealed class StubbornCutter : IRecordCutter
{
    public CutResult Cut(ReadOnlySpan<byte> bytes, int maxRecordBytes, out Range record, out int consumedBytes)
    {
        (record, consumedBytes) = (default, 0);
        return CutResult.Incomplete;
    }
}

using BatchKit.Broadcast;

namespace BatchKit.Benchmarks.EchoServers;

/// <summary>Leaves the prefix in the record, so that it can be sent back as it is.</summary>
internal sealed class WholeRecordCutter : IRecordCutter
{
    public CutResult Cut(ReadOnlySpan<byte> bytes, int maxRecordBytes, out Range record, out int consumedBytes)
    {
        consumedBytes = Records.EndOfFirst(bytes);
        record = ..consumedBytes;
        return consumedBytes > 0 ? CutResult.Record : CutResult.Incomplete;
    }
}

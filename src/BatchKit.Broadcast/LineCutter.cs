namespace BatchKit.Broadcast;

/// <summary>Cuts lines: each ends with LF, and a CR just before it is cut off too. A line's bytes are not looked at further.</summary>
public sealed class LineCutter : IRecordCutter
{
    private const byte LineFeed = (byte)'\n';
    private const byte CarriageReturn = (byte)'\r';

    private LineCutter()
    {
    }

    /// <summary>The only one.</summary>
    public static LineCutter Shared { get; } = new();

    /// <inheritdoc/>
    public CutResult Cut(ReadOnlySpan<byte> bytes, int maxRecordBytes, out Range record, out int consumedBytes)
    {
        var end = bytes.IndexOf(LineFeed);
        if (end < 0)
        {
            (record, consumedBytes) = (default, 0);
            return CanFit(bytes, maxRecordBytes) ? CutResult.Incomplete : CutResult.TooLong;
        }

        consumedBytes = end + 1;
        if (end > 0 && bytes[end - 1] == CarriageReturn)
            end--;
        record = ..end;
        return end <= maxRecordBytes ? CutResult.Record : CutResult.TooLong;
    }

    private static bool CanFit(ReadOnlySpan<byte> start, int maxRecordBytes) =>
        start.Length <= maxRecordBytes || (start.Length == maxRecordBytes + 1 && start[^1] == CarriageReturn);
}

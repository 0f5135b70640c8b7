using BatchKit.Broadcast.Receiving;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Makes lines of what a telnet client sends.</summary>
internal sealed class TelnetRecordReader(int maxRecordBytes) : IRecordReader
{
    public bool TryRead(Memory<byte> received, List<ReceivedRecord> records, out int consumedBytes)
    {
        consumedBytes = 0;
        while (received.Span[consumedBytes..].IndexOf((byte)'\n') is var length && length >= 0)
        {
            var line = received.Slice(consumedBytes, length);
            records.Add(new ReceivedRecord(line[..Strip(line.Span)]));
            consumedBytes += length + 1;
        }

        return received.Length - consumedBytes <= maxRecordBytes;
    }

    private static int Strip(Span<byte> line)
    {
        var length = 0;
        for (var index = 0; index < line.Length; index++)
        {
            if (line[index] == byte.MaxValue)
                index += 2;
            else if (line[index] >= ' ')
                line[length++] = line[index];
        }

        return length;
    }
}

using System.IO.Compression;
using System.Text.Unicode;
using BatchKit.Broadcast;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Receiving;
using BatchKit.Broadcast.Tcp;
using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.Tests.Telnet;

namespace BatchKit.Fuzz.Targets;

/// <summary>What a telnet client sends is read or refused, is valid text, and gives the same records however it is cut into reads, and whether it is compressed or not.</summary>
internal static class TelnetTarget
{
    private const int MaxRecordBytes = 64;

    // IAC DO 87, and the start of compressed input.
    private static readonly byte[] Agreement = [255, 253, 87];
    private static readonly byte[] Start = [255, 250, 87, 255, 240];

    public static void Run(byte[] input)
    {
        var plain = ReadTwice([.. Agreement, .. input]);
        ReadTwice([.. Agreement, .. Start, .. input]);

        // A start within compressed input is ignored, so such an input means something else when it is compressed.
        if (input.AsSpan().IndexOf(Start.AsSpan(0, 3)) < 0)
            FuzzTarget.Require(plain.SequenceEqual(ReadTwice([.. Agreement, .. Start, .. Compress(input)])), "records don't depend on the compression");
    }

    private static List<(RecordKind Kind, string Bytes)> ReadTwice(byte[] input)
    {
        var whole = Read(input, readBytes: int.MaxValue);
        var cut = Read(input, readBytes: 1);

        FuzzTarget.Require(whole.SequenceEqual(cut), "records don't depend on the reads");
        return whole;
    }

    private static byte[] Compress(byte[] input)
    {
        using var compressed = new MemoryStream();
        using (var zlib = new ZLibStream(compressed, CompressionLevel.Fastest))
            zlib.Write(input);
        return compressed.ToArray();
    }

    private static List<(RecordKind Kind, string Bytes)> Read(byte[] input, int readBytes)
    {
        var (client, reader) = Connect();
        var read = new List<(RecordKind Kind, string Bytes)>();
        var isValid = true;
        for (var start = 0; start < input.Length && isValid;)
        {
            var end = (int)Math.Min(input.Length, (long)start + readBytes);
            // A reader may change the bytes.
            isValid = ReadOnce(reader, input.AsSpan(start, end - start).ToArray(), read);
            start = end;
        }

        client.Abort();
        (reader as IDisposable)?.Dispose();
        return read;
    }

    private static bool ReadOnce(IRecordReader reader, Memory<byte> rest, List<(RecordKind Kind, string Bytes)> read)
    {
        var records = new List<ReceivedRecord>();
        bool isValid;
        do
        {
            records.Clear();
            isValid = reader.TryRead(rest, records, out var consumed);
            FuzzTarget.Require(isValid == reader.Failure is null, "a refusal has a reason");
            foreach (var record in records)
            {
                Check(record);
                read.Add((record.Kind, Convert.ToHexString(record.Payload.Span)));
            }

            rest = rest[consumed..];
        }
        while (isValid && (records.Count >= RecordBatch.MaxRecords || reader.HasMore));

        return isValid;
    }

    // MSDP is handed on as it came, and its reader cleans it.
    private static void Check(ReceivedRecord record)
    {
        if (record.Kind == RecordKind.Msdp)
            FuzzTarget.Require(!TelnetMessages.ReadMsdp(record.Payload.Span).Any(static pair => pair.Key.Any(char.IsControl) || pair.Value.Any(char.IsControl)), "variables have no control characters");
        else
            FuzzTarget.Require(Utf8.IsValid(record.Payload.Span), "text is UTF-8");
    }

    private static (ClientConnection Client, IRecordReader Reader) Connect()
    {
        var queue = new SendQueue(new CountingWire(), new SendQueueLimits(1 << 20, 1000, SlowConsumerPolicy.Disconnect), new DeliveryCounters(), TimeProvider.System);
        // Where compressed output is flushed depends on the reads.
        var telnet = new TelnetOptions { Supported = TelnetFeatures.All & ~TelnetFeatures.Compression, Offered = TelnetFeatures.None };
        var origin = new ConnectionOrigin(RemoteEndPoint: null, IsSecure: false);
        return TelnetConnectionFactory.Create(OutputHandle.Connection(0, 1), origin, queue, new BroadcastOptions { MaxRecordBytes = MaxRecordBytes }, telnet, TimeProvider.System);
    }
}

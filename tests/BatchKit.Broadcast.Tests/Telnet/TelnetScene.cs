using System.IO.Compression;
using System.Text;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Receiving;
using BatchKit.Broadcast.Tcp;
using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.Tests.Connections;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Telnet;

/// <summary>A telnet connection without a socket: what the client sends is given, what it gets is looked at.</summary>
internal sealed class TelnetScene
{
    private readonly IRecordReader _reader;

    public TelnetScene(TelnetOptions? telnet = null, int maxRecordBytes = 1024, SendQueueLimits? limits = null, IWire? wire = null)
    {
        var options = new BroadcastOptions { MaxRecordBytes = maxRecordBytes };
        Queue = new SendQueue(wire ?? Wire, limits ?? new SendQueueLimits(1 << 20, 100_000, SlowConsumerPolicy.Disconnect), Counters, Time);
        (Connection, _reader) = TelnetConnectionFactory.Create(
            Some.Connection(), new ConnectionOrigin(RemoteEndPoint: null, IsSecure: false), Queue, options, telnet ?? Silent, Time);
    }

    /// <summary>Settings of a server that offers nothing.</summary>
    public static TelnetOptions Silent => new() { Offered = TelnetFeatures.None };

    public ManualTimeProvider Time { get; } = new();

    public FakeWire Wire { get; } = new();

    public DeliveryCounters Counters { get; } = new();

    public SendQueue Queue { get; }

    public ClientConnection Connection { get; }

    public TelnetTerminal Terminal => Connection.Terminal!;

    public string? Failure => _reader.Failure;

    public byte[] Sent => Wire.Written;

    /// <summary>Bytes as the client sends them: hexadecimal, with text between quotes, as in <c>FF F6 'who' 0D 0A</c>.</summary>
    public static byte[] Bytes(string description)
    {
        var bytes = new List<byte>();
        var parts = description.Split('\'');
        for (var index = 0; index < parts.Length; index++)
        {
            if (index % 2 == 1)
                bytes.AddRange(Encoding.UTF8.GetBytes(parts[index]));
            else
                bytes.AddRange(Convert.FromHexString(parts[index].Replace(" ", "", StringComparison.Ordinal)));
        }

        return [.. bytes];
    }

    /// <summary>A zlib stream of bytes that are described as <see cref="Bytes"/> says.</summary>
    public static byte[] Compress(string description) => Compress(Bytes(description));

    public static byte[] Compress(byte[] bytes)
    {
        using var compressed = new MemoryStream();
        using (var zlib = new ZLibStream(compressed, CompressionLevel.Optimal))
            zlib.Write(bytes);
        return compressed.ToArray();
    }

    /// <summary>Reads bytes in reads that end at the given places, and once more at the end.</summary>
    public List<(RecordKind Kind, string Text)> Read(byte[] bytes, params IEnumerable<int> cuts)
    {
        var records = new List<(RecordKind Kind, string Text)>();
        var start = 0;
        foreach (var end in cuts.Where(cut => cut > 0 && cut < bytes.Length).Distinct().Order().Append(bytes.Length))
        {
            ReadOnce(bytes[start..end], records);
            start = end;
        }

        return records;
    }

    /// <summary>Reads bytes that are described as <see cref="Bytes"/> says.</summary>
    public List<(RecordKind Kind, string Text)> Read(string description) => Read(Bytes(description));

    public string[] ReadLines(string description) =>
        [.. Read(description).Select(record => record.Kind == RecordKind.Data ? record.Text : throw new InvalidOperationException($"Not a line: {record}."))];

    private void ReadOnce(byte[] bytes, List<(RecordKind Kind, string Text)> texts)
    {
        var records = new List<ReceivedRecord>();
        Memory<byte> rest = bytes;
        bool isMore;
        do
        {
            var isValid = _reader.TryRead(rest, records, out var consumed);
            Assert.Equal(isValid, Failure is null);
            isMore = isValid && (records.Count >= RecordBatch.MaxRecords || _reader.HasMore);
            texts.AddRange(records.Select(record => (record.Kind, Encoding.UTF8.GetString(record.Payload.Span))));
            records.Clear();
            rest = rest[consumed..];
        }
        while (isMore);
    }
}

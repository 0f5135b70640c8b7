using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Receiving;
using BatchKit.Broadcast.Tcp;
using BatchKit.Broadcast.Telnet;
using BatchKit.Testing;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Broadcast.Tests.Telnet;

public sealed class HostileInputTests(ITestOutputHelper output)
{
    // Most connections are young, and some send until they are refused.
    private const int FewInputs = 10;
    private const int ManyInputs = 2000;

    private const int MaxRecordBytes = 64;
    private const int MaxInputBytes = 512;

    // The most that is said to one request: DO NEW-ENVIRON and the names of the variables.
    private const int MaxAnswerBytes = 64;

    // A line and a subnegotiation that are kept grow to their limits once; the rest is what a read's records take.
    private const int MaxAllocatedBytes = 64 * 1024;

    private readonly ParserInputs _inputs = new();

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Every_way_of_cutting_an_input_into_reads_gives_the_same_records_and_answers(bool hidesInput)
    {
        // Where compressed output is flushed depends on the reads.
        var options = new TelnetOptions { Supported = TelnetFeatures.All & ~TelnetFeatures.Compression };

        Check.One(Config.QuickThrowOnFailure.WithMaxTest(3000).WithEndSize(60), Prop.ForAll(TelnetInputs.Cut, input =>
        {
            var (whole, cut, single) = (new TelnetScene(options, MaxRecordBytes), new TelnetScene(options, MaxRecordBytes), new TelnetScene(options, MaxRecordBytes));
            foreach (var scene in new[] { whole, cut, single })
                scene.Terminal.Echo.Tell(hidesInput, scene.Connection);
            var records = whole.Read(input.Input);
            var isSame = records.SequenceEqual(cut.Read(input.Input, input.Cuts)) && records.SequenceEqual(single.Read(input.Input, Enumerable.Range(0, input.Input.Length)));
            return isSame && whole.Sent.SequenceEqual(cut.Sent) && whole.Sent.SequenceEqual(single.Sent) && State(whole) == State(cut) && State(whole) == State(single);
        }));
    }

    [Fact]
    public void Broken_inputs_are_read_or_refused_without_a_crash_and_with_bounded_memory_and_answers()
    {
        var seed = int.TryParse(Environment.GetEnvironmentVariable("BATCHKIT_SEED"), out var given) ? given : Random.Shared.Next();
        output.WriteLine($"BATCHKIT_SEED={seed} repeats this run.");
        var random = new Random(seed);
        var bytes = new byte[MaxInputBytes];
        var records = new List<ReceivedRecord>(MaxInputBytes);
        var (sent, refused, found, mostAllocated) = (0, 0, 0, 0L);

        while (sent < ParserInputs.Count)
        {
            var wire = new CountingWire();
            var (client, reader) = Connect(wire);
            var (read, isValid) = (0, true);
            for (var left = random.Next(100) == 0 ? ManyInputs : FewInputs; left > 0 && isValid; left--)
            {
                var length = TelnetInputs.Mutate(random, bytes);
                _inputs.Begin();
                var before = GC.GetAllocatedBytesForCurrentThread();
                isValid = reader.TryRead(bytes.AsMemory(0, length), records, out var consumed);
                mostAllocated = Math.Max(mostAllocated, GC.GetAllocatedBytesForCurrentThread() - before);
                _inputs.End(sent, seed);
                (sent, read) = (sent + 1, read + length);
                Assert.True(consumed == length || !isValid);
                found += CheckRecords(records, read);
            }

            client.Abort();
            refused += isValid ? 0 : 1;
            Assert.InRange(wire.Bytes, 0, Math.Min(read * MaxAnswerBytes / 3L, TelnetAnswers.MaxAnswers * MaxAnswerBytes) + MaxAnswerBytes);
        }

        output.WriteLine($"{refused} connections were refused, {found} records came; the most allocated for one input: {mostAllocated} bytes. {_inputs}");
        Assert.InRange(found, ParserInputs.Count / 10, ParserInputs.Count * 10);
        Assert.InRange(refused, ParserInputs.Count / 10_000, ParserInputs.Count);
        Assert.InRange(mostAllocated, 1, MaxAllocatedBytes);
    }

    private static int CheckRecords(List<ReceivedRecord> records, int readBytes)
    {
        foreach (var record in records)
        {
            // What is no UTF-8 grows to three times its size.
            Assert.InRange(record.Payload.Length, 0, 3 * Math.Min(readBytes, MaxRecordBytes));
            Assert.True(System.Text.Unicode.Utf8.IsValid(record.Payload.Span));
        }

        var count = records.Count;
        records.Clear();
        return count;
    }

    private static (ClientConnection Client, IRecordReader Reader) Connect(CountingWire wire)
    {
        var time = new ManualTimeProvider();
        var queue = new SendQueue(wire, new SendQueueLimits(1 << 20, 1000, SlowConsumerPolicy.Disconnect), new DeliveryCounters(), time);
        // A few compressed bytes become many, so what they allocate and what is answered have no bound by the bytes that were read.
        var telnet = new TelnetOptions { Offered = TelnetFeatures.None, Supported = TelnetFeatures.All & ~TelnetFeatures.InputCompression };
        var options = new BroadcastOptions { MaxRecordBytes = MaxRecordBytes };
        return TelnetConnectionFactory.Create(Some.Connection(), new ConnectionOrigin(RemoteEndPoint: null, IsSecure: false), queue, options, telnet, time);
    }

    private static (string? Failure, byte Format, string Terminal) State(TelnetScene scene)
    {
        var terminal = scene.Terminal;
        return (scene.Failure, scene.Connection.Format.Index, $"{terminal.Charset} {terminal.Width} {terminal.Height} {terminal.Type} {terminal.ClientName} {terminal.ClientVersion} {terminal.Capabilities} {terminal.TakesGmcp} {terminal.HidesInput}");
    }
}

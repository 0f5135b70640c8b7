using System.Buffers.Binary;
using BatchKit.Broadcast.Receiving;

namespace BatchKit.Broadcast.Tests.Receiving;

[Trait("Lane", "slow: many random inputs")]
public sealed class CutterMutationTests(ITestOutputHelper output)
{
    private const int Seed = 20_261_121;
    private const int MaxRecordBytes = 24;

    // The buffer of a busy client, where the pool had none.
    private const long MostBytesAnInput = (64 * 1024) + (16 * 1024);

    private readonly ParserInputs _inputs = new();
    private readonly MutatedInput _input = new(Seed);
    private readonly RecordCollector _expected = new();

    [Fact]
    public void Lines_are_what_a_plain_split_says() => Compare(LineCutter.Shared, MakeLines, ExpectLines, "\r\n\n"u8.ToArray());

    [Fact]
    public void Records_behind_their_length_are_what_a_plain_loop_says() =>
        Compare(LengthPrefixCutter.Shared, MakeRecords, ExpectRecords, [0, 1, MaxRecordBytes, MaxRecordBytes + 1, 127, 128, 255]);

    [Fact]
    public void Records_behind_a_varint_are_what_a_plain_loop_says() =>
        Compare(LengthPrefixCutter.Varint, MakeVarintRecords, ExpectVarintRecords, [0, 1, MaxRecordBytes, MaxRecordBytes + 1, 127, 128, 255]);

    private void Compare(IRecordCutter cutter, Action make, Func<byte[], bool> expect, byte[] telling)
    {
        var run = new InboundRun(new BroadcastOptions { MaxRecordBytes = MaxRecordBytes }, cutter);
        var refused = 0;
        for (var input = 0; input < ParserInputs.Count; input++)
        {
            _input.Clear();
            make();
            _input.Spoil(telling);
            run.Collector.Clear();
            _expected.Clear();
            var isValid = expect(_input.Bytes.ToArray());
            run.Source.Start(_input.Bytes, _input.Cuts());
            _inputs.Begin();
            var before = GC.GetAllocatedBytesForCurrentThread();

            var end = run.Run();

            var allocated = GC.GetAllocatedBytesForCurrentThread() - before;
            _inputs.End(input, Seed);
            if (end != (isValid ? InboundEnd.Finished : InboundEnd.ProtocolError) || !run.Collector.Bytes.SequenceEqual(_expected.Bytes) || allocated > MostBytesAnInput)
                Assert.Fail($"Input {input} of seed {Seed}, {_input.Hex}: {end}, {run.Collector.Count} records where {_expected.Count} were expected, {allocated} bytes allocated.");
            refused += isValid ? 0 : 1;
        }

        // Both ways were taken often.
        output.WriteLine($"{refused} refused. {_inputs}");
        Assert.InRange(refused, ParserInputs.Count / 20, ParserInputs.Count * 19 / 20);
    }

    private void MakeLines()
    {
        for (var line = _input.Random.Next(1, 4); line > 0; line--)
        {
            _input.AddRandom(_input.Random.Next(MaxRecordBytes + 2));
            _input.Add(_input.Random.Next(2) == 0 ? "\r\n"u8 : "\n"u8);
        }
    }

    private bool ExpectLines(byte[] bytes)
    {
        var rest = bytes.AsSpan();
        while (rest.IndexOf((byte)'\n') is var end and >= 0)
        {
            var line = rest[..end];
            rest = rest[(end + 1)..];
            if (!line.IsEmpty && line[^1] == '\r')
                line = line[..^1];
            if (line.Length > MaxRecordBytes)
                return false;
            _expected.Add(line);
        }

        return rest.Length <= MaxRecordBytes || (rest.Length == MaxRecordBytes + 1 && rest[^1] == '\r');
    }

    private void MakeRecords()
    {
        Span<byte> prefix = stackalloc byte[sizeof(uint)];
        for (var record = _input.Random.Next(1, 4); record > 0; record--)
        {
            var length = _input.Random.Next(MaxRecordBytes + 1);
            BinaryPrimitives.WriteInt32BigEndian(prefix, length);
            _input.Add(prefix);
            _input.AddRandom(length);
        }
    }

    private bool ExpectRecords(byte[] bytes)
    {
        var place = 0;
        while (bytes.Length - place >= 4)
        {
            var length = ((long)bytes[place] << 24) + (bytes[place + 1] << 16) + (bytes[place + 2] << 8) + bytes[place + 3];
            if (length > MaxRecordBytes)
                return false;
            if (bytes.Length - place - 4 < length)
                break;
            _expected.Add(bytes.AsSpan(place + 4, (int)length));
            place += 4 + (int)length;
        }

        return true;
    }

    private void MakeVarintRecords()
    {
        for (var record = _input.Random.Next(1, 4); record > 0; record--)
        {
            var length = _input.Random.Next(MaxRecordBytes + 1);
            ReadOnlySpan<byte> prefix = _input.Random.Next(4) == 0 ? [(byte)(length | 0x80), 0] : [(byte)length];
            _input.Add(prefix);
            _input.AddRandom(length);
        }
    }

    private bool ExpectVarintRecords(byte[] bytes)
    {
        var place = 0;
        while (place < bytes.Length)
        {
            var (length, used, isWhole) = (0L, 0, false);
            while (place + used < bytes.Length && used < 5 && !isWhole)
            {
                length += (bytes[place + used] & 127L) << (7 * used);
                isWhole = bytes[place + used++] < 128;
            }

            if (length > uint.MaxValue || (used == 5 && !isWhole) || (isWhole && length > MaxRecordBytes))
                return false;
            if (!isWhole || bytes.Length - place - used < length)
                break;
            _expected.Add(bytes.AsSpan(place + used, (int)length));
            place += used + (int)length;
        }

        return true;
    }
}

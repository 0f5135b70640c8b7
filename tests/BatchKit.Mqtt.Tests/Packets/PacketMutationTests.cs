using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Tests.Packets.Plain;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Mqtt.Tests.Packets;

public sealed class PacketMutationTests(ITestOutputHelper output)
{
    // The declared limit. The most for its bytes takes a user property with a name and a value of one byte each: 7 bytes become two strings and their place, 64.
    private const int MostBytesAByte = 10;

    // An exception with its text and its trace, and what is left of the thread's 8 KiB to allocate from when a collection takes them away.
    private const int ExceptionBytes = 16 * 1024;

    private static readonly PacketType[] Received = [PacketType.Connack, PacketType.Publish, PacketType.Puback, PacketType.Suback, PacketType.Pingresp, PacketType.Disconnect];

    private readonly ParserInputs _inputs = new();

    [Fact]
    public void Broken_packets_are_refused_or_read_as_a_plain_decoder_says_and_take_no_more_memory_than_declared()
    {
        var seed = int.TryParse(Environment.GetEnvironmentVariable("BATCHKIT_SEED"), out var given) ? given : Random.Shared.Next();
        output.WriteLine($"BATCHKIT_SEED={seed} repeats this run.");
        var random = new Random(seed);
        var mutator = new PacketMutator(random);
        var (five, old) = (Packets(MqttVersion.V5, seed), Packets(MqttVersion.V311, seed));

        var counts = new int[3];
        var mostBytes = 0.0;
        for (var input = 0; input < ParserInputs.Count; input++)
        {
            var version = random.Next(4) == 0 ? MqttVersion.V311 : MqttVersion.V5;
            var packets = version == MqttVersion.V5 ? five : old;
            var packet = mutator.Mutate(packets[random.Next(packets.Length)]);
            _inputs.Begin();
            var outcome = Read(packet, version, out var allocated);
            _inputs.End(input, seed);
            counts[(int)outcome]++;
            mostBytes = Math.Max(mostBytes, (double)Math.Max(0, allocated - ExceptionBytes) / (packet.Length + 1));
            if (allocated > ExceptionBytes + ((long)MostBytesAByte * packet.Length) || !IsAsExpected(outcome, packet, version))
                Assert.Fail($"Input {input} of seed {seed}, {version}, {Convert.ToHexString(packet)}: {outcome}, {allocated} bytes allocated.");
            ReadAsAnother(packet, version, Received[random.Next(Received.Length)]);
        }

        output.WriteLine($"{counts[(int)Outcome.Refused]} refused, {counts[(int)Outcome.Incomplete]} not whole, {counts[(int)Outcome.Read]} read; beyond {ExceptionBytes} bytes at most {mostBytes:F1} a byte. {_inputs}");
        Assert.All(counts, static count => Assert.InRange(count, ParserInputs.Count / 50, ParserInputs.Count));
    }

    private enum Outcome
    {
        Incomplete,
        Refused,
        Read,
    }

    private static byte[][] Packets(MqttVersion version, int seed) =>
    [
        .. SomePackets.From(version).Sample(600, new Rnd((ulong)seed), size: 6).Select(packet => PlainEncoder.Encode(packet, version)).Where(static packet => packet.Length < 1024).Take(300),
        PlainEncoder.Packet(13, 0, []),
    ];

    private static Outcome Read(byte[] packet, MqttVersion version, out long allocated)
    {
        var before = GC.GetAllocatedBytesForCurrentThread();
        try
        {
            return SourceReader.Touch(packet, version) is null ? Outcome.Incomplete : Outcome.Read;
        }
        catch (MqttProtocolException)
        {
            return Outcome.Refused;
        }
        finally
        {
            allocated = GC.GetAllocatedBytesForCurrentThread() - before;
        }
    }

    private static bool IsAsExpected(Outcome outcome, byte[] packet, MqttVersion version)
    {
        var isOfBroker = packet.Length > 0 && Received.Contains((PacketType)(packet[0] / 16));
        if (!isOfBroker)
            return true;
        var expected = PlainDecoder.Decode(packet, version, isFromBroker: true);
        return outcome == Outcome.Read ? expected is not null && SourceReader.Told(expected).Show() == SourceReader.Read(packet, version).Show() : expected is null;
    }

    /// <summary>A body as that of another packet: nothing is thrown but refusals.</summary>
    private static void ReadAsAnother(byte[] packet, MqttVersion version, PacketType type)
    {
        var body = packet.AsSpan(Math.Min(2, packet.Length));
        try
        {
            SourceReader.Touch(new PacketHeader(type, Flags: (byte)(type == PacketType.Publish ? 0b0010 : 0), body.Length), body, version);
        }
        catch (MqttProtocolException refusal)
        {
            Assert.InRange(refusal.ReasonCode, MqttReasonCode.MalformedPacket, MqttReasonCode.PacketTooLarge);
        }
    }
}

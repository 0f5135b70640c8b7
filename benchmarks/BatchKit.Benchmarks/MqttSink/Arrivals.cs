using System.Buffers.Binary;
using System.Diagnostics;
using BatchKit.Benchmarks.Measuring;
using BatchKit.Benchmarks.RawMqtt;

namespace BatchKit.Benchmarks.MqttSink;

/// <summary>Counts and times the PUBLISH packets of a stream, and writes their acknowledgements.</summary>
internal sealed class Arrivals
{
    private readonly LatencyHistogram _latencies = new();

    public bool IsTimed { get; private set; }

    public long Count { get; private set; }

    public long FirstAt { get; private set; }

    public long LastAt { get; private set; }

    public long Median => _latencies.At(0.5);

    public long NinetyNine => _latencies.At(0.99);

    /// <param name="isTimed">Payloads begin with the time when they were due.</param>
    public void Begin(bool isTimed)
    {
        (Count, FirstAt, LastAt, IsTimed) = (0, 0, 0, isTimed);
        _latencies.Clear();
    }

    /// <summary>Takes the whole packets of what came.</summary>
    /// <param name="input">Begins with a packet's first byte.</param>
    /// <param name="acknowledgements">Gets the answers; room for one a packet.</param>
    /// <param name="acknowledgementBytes">How long they are together.</param>
    /// <returns>How many bytes were whole packets.</returns>
    public int Take(ReadOnlySpan<byte> input, Span<byte> acknowledgements, out int acknowledgementBytes)
    {
        var (taken, before, now) = (0, Count, Stopwatch.GetTimestamp());
        acknowledgementBytes = 0;
        while (RawPackets.Measure(input[taken..], out var bodyAt) is > 0 and var length)
        {
            if (input[taken] >> 4 == RawPackets.Publish)
                TakePublish(input.Slice(taken, length), bodyAt, now, acknowledgements, ref acknowledgementBytes);
            taken += length;
        }

        if (Count == before)
            return taken;
        LastAt = now;
        FirstAt = before == 0 ? now : FirstAt;
        return taken;
    }

    private void TakePublish(ReadOnlySpan<byte> packet, int position, long now, Span<byte> acknowledgements, ref int acknowledgementBytes)
    {
        Count++;
        position += 2 + BinaryPrimitives.ReadUInt16BigEndian(packet[position..]);
        if ((packet[0] & 0x06) != 0)
        {
            ReadOnlySpan<byte> answer = [RawPackets.Puback << 4, 2, packet[position], packet[position + 1]];
            answer.CopyTo(acknowledgements[acknowledgementBytes..]);
            acknowledgementBytes += answer.Length;
            position += 2;
        }

        if (!IsTimed || !RawPackets.TryReadNumber(packet, ref position, out var propertyBytes))
            return;
        _latencies.Add(now - BinaryPrimitives.ReadInt64LittleEndian(packet[(position + propertyBytes)..]));
    }
}

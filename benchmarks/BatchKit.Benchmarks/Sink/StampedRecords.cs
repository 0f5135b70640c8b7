using System.Buffers.Binary;
using System.Diagnostics;
using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.Measuring;

namespace BatchKit.Benchmarks.Sink;

/// <summary>How long records of one size were under way, each of which begins with the time at which it was written.</summary>
internal sealed class StampedRecords
{
    private readonly LatencyHistogram _latencies = new();
    private int _recordBytes;

    public bool IsMeasuring => _recordBytes > 0;

    public int Start(int recordBytes)
    {
        _latencies.Clear();
        return _recordBytes = recordBytes;
    }

    /// <summary>Notes the records that begin in what was read.</summary>
    /// <param name="bytes">What was read.</param>
    /// <param name="position">How many bytes came before it.</param>
    public void Read(ReadOnlySpan<byte> bytes, long position)
    {
        var now = Stopwatch.GetTimestamp();
        for (var start = (int)((_recordBytes - (position % _recordBytes)) % _recordBytes); start + sizeof(long) <= bytes.Length; start += _recordBytes)
            _latencies.Add(now - BinaryPrimitives.ReadInt64LittleEndian(bytes[start..]));
    }

    public void Report(ControlPipe pipe)
    {
        _recordBytes = 0;
        pipe.Reply(_latencies.Count, _latencies.At(0.5), _latencies.At(0.99), _latencies.At(1));
    }
}

using BatchKit;
using SensorHub.World;

namespace SensorHub.Measuring;

/// <summary>Counts the changes that the subscriber receives, and measures how long each took.</summary>
internal sealed class ArrivalMeter(GameWorld world, RunClock clock) : IMessageHandler
{
    private readonly Dictionary<OutputHandle, SeenNumbers> _topics = world.Properties.ToDictionary(property => property.Handle, _ => new SeenNumbers());
    private readonly LatencyHistogram _latencies = new();

    private long _arrived;
    private long _doubled;

    /// <summary>The number of changes that arrived, each counted once.</summary>
    public long Arrived => Volatile.Read(ref _arrived);

    /// <summary>The number of repeated arrivals.</summary>
    public long Doubled => Volatile.Read(ref _doubled);

    public long[] CopyLatencies() => _latencies.Copy();

    public ValueTask HandleAsync(IReadOnlyList<ReceivedMessage> batch, CancellationToken cancellationToken)
    {
        var now = clock.Microseconds;
        foreach (var message in batch)
        {
            if (_topics.TryGetValue(message.Handle, out var seen))
                Take(message.Payload.Span, seen, now);
        }

        return default;
    }

    private void Take(ReadOnlySpan<byte> payload, SeenNumbers seen, long now)
    {
        if (!ChangeMark.TryRead(payload, out var mark) || mark.Run != world.Run)
            return;
        if (!seen.Add(mark.Number))
        {
            Volatile.Write(ref _doubled, _doubled + 1);
            return;
        }

        _latencies.Record(now - mark.At);
        Volatile.Write(ref _arrived, _arrived + 1);
    }
}

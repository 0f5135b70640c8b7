using System.Collections.Immutable;
using BatchKit.Transports;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>Knows where the broker rejected the last frame, and whether a channel or only a full queue is the cause. Thread-safe.</summary>
internal sealed class RejectedFrames
{
    private ImmutableHashSet<FrameDestination> _destinations = [];

    private readonly DoubtedChannel _doubted = new();

    /// <summary>Notes the answers to frames.</summary>
    /// <returns>
    /// True when the channel may be the cause: the broker has rejected all frames, this time and the last. While it takes others, a queue is full: it rejects over any channel, and all sends share the connection.
    /// </returns>
    public bool Note(IReadOnlyList<PlannedFrame> frames, FrameResult[] results, OpenChannel open)
    {
        for (var index = 0; index < results.Length; index++)
            Note(frames[index].Destination, results[index].Outcome);
        if (Array.Exists(results, static result => result.Outcome == FrameOutcome.Acknowledged))
        {
            _doubted.Clear();
            return false;
        }

        return Array.Exists(results, static result => result.Error is PublishException { IsReturn: false }) && _doubted.Doubt(open);
    }

    /// <summary>True when one of the frames shares a receiver with a rejected one: then each must wait for the answer to those before it, whatever the channel.</summary>
    public bool Concern(IReadOnlyList<PlannedFrame> frames) =>
        _destinations is { IsEmpty: false } rejected && frames.Any(frame => rejected.Any(frame.Destination.Shares));

    private void Note(FrameDestination destination, FrameOutcome outcome)
    {
        if (outcome == FrameOutcome.NotTaken)
            ImmutableInterlocked.Update(ref _destinations, static (all, rejected) => all.Add(rejected), destination);
        else if (destination == FrameDestination.All && outcome == FrameOutcome.Acknowledged && !_destinations.IsEmpty)
            _destinations = [];
        else if (!_destinations.IsEmpty)
            ImmutableInterlocked.Update(ref _destinations, static (all, taken) => all.Remove(taken), destination);
    }
}

/// <summary>Knows whether a channel, and not a full queue, may be the cause of a rejection. Thread-safe.</summary>
internal sealed class DoubtedChannel
{
    // The channel over which the broker has rejected something, and taken nothing since.
    private volatile OpenChannel? _channel;

    /// <summary>The broker has taken something.</summary>
    public void Clear()
    {
        if (_channel is not null)
            _channel = null;
    }

    /// <summary>The broker has rejected something.</summary>
    /// <returns>True when it has rejected the last thing over the same channel too.</returns>
    public bool Doubt(OpenChannel channel)
    {
        var wasDoubted = _channel == channel;
        _channel = channel;
        return wasDoubted;
    }
}

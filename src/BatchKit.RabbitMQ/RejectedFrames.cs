using System.Collections.Immutable;
using BatchKit.Transports;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>Knows where the broker rejected the last frame, and whether a channel or only a full queue is the cause. Thread-safe.</summary>
internal sealed class RejectedFrames
{
    private ImmutableHashSet<FrameDestination> _destinations = [];

    // The channel over which the broker has rejected frames, and taken none since.
    private volatile OpenChannel? _doubted;

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
            if (_doubted is not null)
                _doubted = null;
            return false;
        }

        if (!Array.Exists(results, static result => result.Error is PublishException { IsReturn: false }))
            return false;
        var wasDoubted = _doubted == open;
        _doubted = open;
        return wasDoubted;
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

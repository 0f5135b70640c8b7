using System.Runtime.InteropServices;

namespace BatchKit.Transports;

/// <summary>The batches of a send that travel together: all for one destination, of one producer, with rising numbers. <see cref="FramePlan"/> makes it.</summary>
/// <remarks>Valid as long as the send's batches are: until its task has ended.</remarks>
public sealed class PlannedFrame
{
    private readonly List<MessageBatch>? _chosen;
    private readonly List<int>? _places;
    private readonly ReadOnlyMemory<MessageBatch> _whole;

    /// <summary>All batches of the send.</summary>
    internal PlannedFrame(FrameDestination destination, ReadOnlyMemory<MessageBatch> whole)
    {
        Destination = destination;
        _whole = whole;
    }

    /// <summary>Some of them, added one by one.</summary>
    internal PlannedFrame(FrameDestination destination)
    {
        Destination = destination;
        _chosen = [];
        _places = [];
    }

    /// <summary>Where it goes.</summary>
    public FrameDestination Destination { get; }

    /// <summary>Its batches, to be encoded with <see cref="PooledFrame.Encode"/>.</summary>
    public ReadOnlySpan<MessageBatch> Batches => _chosen is null ? _whole.Span : CollectionsMarshal.AsSpan(_chosen);

    /// <summary>The most bytes that the frame takes so far; counted only for what is added.</summary>
    internal long Bytes { get; private set; }

    internal ProducerId Producer => Batches[0].Producer;

    internal void Add(MessageBatch batch, int place, int bytes)
    {
        _chosen!.Add(batch);
        _places!.Add(place);
        Bytes += bytes;
    }

    /// <summary>Sets the same outcome for each of its batches, at their places in the send.</summary>
    internal void Report(BatchOutcome outcome, Span<BatchOutcome> outcomes)
    {
        if (_places is null)
        {
            outcomes.Fill(outcome);
            return;
        }

        foreach (var place in _places)
            outcomes[place] = outcome;
    }
}

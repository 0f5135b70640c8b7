using System.Runtime.InteropServices;
using BatchKit.Transports;

namespace BatchKit.RabbitMQ;

/// <summary>The batches of a send that travel together: all for one destination, of one producer, with rising numbers.</summary>
internal sealed class PlannedFrame
{
    private readonly List<MessageBatch>? _chosen;
    private readonly List<int>? _places;
    private readonly ReadOnlyMemory<MessageBatch> _whole;

    /// <summary>All batches of the send.</summary>
    public PlannedFrame(FrameDestination destination, ReadOnlyMemory<MessageBatch> whole)
    {
        Destination = destination;
        _whole = whole;
    }

    /// <summary>Some of them, added one by one.</summary>
    public PlannedFrame(FrameDestination destination)
    {
        Destination = destination;
        _chosen = [];
        _places = [];
    }

    public FrameDestination Destination { get; }

    /// <summary>The most bytes that the frame takes so far; counted only for what is added.</summary>
    public long Bytes { get; private set; }

    public ProducerId Producer => Batches[0].Producer;

    public ReadOnlySpan<MessageBatch> Batches => _chosen is null ? _whole.Span : CollectionsMarshal.AsSpan(_chosen);

    public void Add(MessageBatch batch, int place, int bytes)
    {
        _chosen!.Add(batch);
        _places!.Add(place);
        Bytes += bytes;
    }

    /// <summary>Sets the same outcome for each of its batches, at their places in the send.</summary>
    public void Report(BatchOutcome outcome, Span<BatchOutcome> outcomes)
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

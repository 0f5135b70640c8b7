using BatchKit.Transports;

namespace BatchKit.Mqtt.Publishing;

/// <summary>Batches whose send was given up half-way, until they are sent again; and those that may be used for others. Guarded by the queue's lock.</summary>
/// <remarks>Dispatch sends what a failed send left again before anything newer of its producer: what it does not bring back then, it has given up.</remarks>
internal sealed class ParkedBatches(TopicPolicy policy)
{
    private const int MaxSpare = 4096;

    private readonly Dictionary<ProducerId, List<BatchPublishes>> _parked = [];
    private readonly Stack<BatchPublishes> _spare = [];

    /// <summary>The batch's publishes: those that were parked, or else just begun.</summary>
    public BatchPublishes Take(PublishSend owner, MessageBatch batch, out bool isBegun)
    {
        isBegun = false;
        if (_parked.Count > 0 && _parked.TryGetValue(batch.Producer, out var parked) && parked.Find(group => group.Number == batch.Number) is { } resumed)
        {
            parked.Remove(resumed);
            resumed.Resume(owner, batch);
            return resumed;
        }

        isBegun = true;
        var group = _spare.TryPop(out var spare) ? spare : new BatchPublishes(policy);
        group.Begin(owner, batch);
        return group;
    }

    /// <summary>What the producer did not bring back is forgotten. It is not spare: the window may still hold some of it.</summary>
    public void Forget(ProducerId producer)
    {
        if (_parked.Count > 0)
            _parked.Remove(producer);
    }

    /// <summary>Takes back what a send has left.</summary>
    public void Return(BatchPublishes group)
    {
        if (group.Unsettled == 0)
        {
            if (_spare.Count < MaxSpare)
                _spare.Push(group);
            return;
        }

        if (!_parked.TryGetValue(group.Producer, out var parked))
            _parked[group.Producer] = parked = [];
        parked.Add(group);
    }
}

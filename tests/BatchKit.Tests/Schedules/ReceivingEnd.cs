using BatchKit.Transports;

namespace BatchKit.Tests.Schedules;

/// <summary>The far end of a route: drops numbers that it has seen, per producer and destination, and checks that nothing is doubled or overtakes.</summary>
internal sealed class ReceivingEnd(int route, Schedule schedule, Journal journal)
{
    private readonly Dictionary<(ProducerId Producer, OutputHandle Handle), long> _lastNumbers = [];
    private readonly LatestStarts[] _ofHandles = [.. schedule.Handles.Select(_ => new LatestStarts())];
    private readonly LatestStarts _ofRoute = new();

    /// <param name="batch">What arrived.</param>
    /// <param name="refused">The places of the messages in it that are not taken.</param>
    /// <param name="isAbandoned">True when the buffer had given the send up: what was sent after it may have arrived before it.</param>
    public void Deliver(SentBatch batch, HashSet<int> refused, bool isAbandoned)
    {
        var key = (batch.Producer, batch.Handle);
        if (_lastNumbers.TryGetValue(key, out var last) && batch.Number <= last)
            return;
        _lastNumbers[key] = batch.Number;
        for (var index = 0; index < batch.Messages.Length; index++)
        {
            if (refused.Contains(index))
                continue;
            Deliver(batch.Messages[index]);
            if (schedule.AnswersInOrder && !isAbandoned)
                CheckAcrossHandles(batch.Messages[index]);
        }
    }

    private void Deliver(LedgerMessage message)
    {
        if ((message.DeliveredRoutes & (1 << route)) != 0)
            journal.Broken($"m{message.Id} was delivered twice on route {route}");
        message.DeliveredRoutes |= 1 << route;
        if (message.Loop is { } loop && !loop.Deliver(route, message))
            journal.Broken($"m{message.Id} was overtaken on route {route} by a later one of its loop");

        // Two writes are ordered when one had ended before the other was called. Those that overlap may arrive either way.
        if (message.End < _ofHandles[message.Handle].OfAll)
            journal.Broken($"m{message.Id} was overtaken on route {route} by one that was written to the same handle after it");
        _ofHandles[message.Handle].Add(message, isGroup: false);
    }

    // Connections among themselves have no order to keep, because a client sees its own output only. What a scope holds back counts from when it was queued; what one
    // ambient scope gathered, from when it was written.
    private void CheckAcrossHandles(LedgerMessage message)
    {
        var isGroup = schedule.IsGroup(message.Handle);
        if (message.QueuedAt < _ofRoute.Before(isGroup))
            journal.Broken($"m{message.Id} was queued, and was overtaken on route {route} by one that was written after that");
        _ofRoute.Add(message, isGroup);
        if (message.Gathering is not { IsOpen: false } gathering || !gathering.IsUndisturbed(message.Handle))
            return;
        var ofGathering = gathering.OnRoutes[route];
        if (message.End < ofGathering.Before(isGroup))
            journal.Broken($"m{message.Id} was overtaken on route {route} by one that was written after it in the same ambient scope");
        ofGathering.Add(message, isGroup);
    }
}

/// <summary>When the latest of the messages that were delivered so far were written: of all, and of those for groups.</summary>
internal sealed class LatestStarts
{
    private long _ofGroups;

    public long OfAll { get; private set; }

    /// <summary>What a message must not have been written before: for a group's, all others; for a connection's, those for groups.</summary>
    public long Before(bool isGroup) => isGroup ? OfAll : _ofGroups;

    public void Add(LedgerMessage message, bool isGroup)
    {
        OfAll = Math.Max(OfAll, message.Start);
        if (isGroup)
            _ofGroups = Math.Max(_ofGroups, message.Start);
    }
}

using BatchKit.Transports;

namespace BatchKit.Tests.Schedules;

/// <summary>The far end of a route: drops numbers that it has seen, per producer and destination, and checks that nothing is doubled or overtakes.</summary>
internal sealed class ReceivingEnd(int route, Journal journal)
{
    private readonly Dictionary<(ProducerId Producer, OutputHandle Handle), long> _lastNumbers = [];
    private readonly Dictionary<OutputHandle, long> _latestStarts = [];

    public void Deliver(SentBatch batch)
    {
        var key = (batch.Producer, batch.Handle);
        if (_lastNumbers.TryGetValue(key, out var last) && batch.Number <= last)
            return;
        _lastNumbers[key] = batch.Number;
        foreach (var message in batch.Messages)
            Deliver(batch.Handle, message);
    }

    private void Deliver(OutputHandle handle, LedgerMessage message)
    {
        if ((message.DeliveredRoutes & (1 << route)) != 0)
            journal.Broken($"m{message.Id} was delivered twice on route {route}");
        message.DeliveredRoutes |= 1 << route;

        // Two writes are ordered when one had ended before the other was called. Those that overlap may arrive either way.
        var latestStart = _latestStarts.GetValueOrDefault(handle);
        if (message.End < latestStart)
            journal.Broken($"m{message.Id} was overtaken on route {route} by one that was written after it");
        _latestStarts[handle] = Math.Max(latestStart, message.Start);
    }
}

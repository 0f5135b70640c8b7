using Microsoft.Extensions.Logging;
using MQTTnet.Server;

namespace BatchKit.MQTTnet;

/// <summary>
/// Determines how many messages fit in the queue of every connected subscriber, and waits for all full queues together, within a time limit. Only one send at a time may use it, so
/// that no two sends use the same capacity.
/// </summary>
internal sealed class SubscriberCapacity(MqttServer server, MqttServerTransportOptions options, DropCounter drops, TimeProvider timeProvider, ILogger logger)
{
    // The server has no event for a sent message. At its highest rate, 80,000 messages per second, it sends less than a tenth of its default queue in this time.
    private static readonly TimeSpan PollInterval = TimeSpan.FromMilliseconds(1);

    // The rest of the queue is for the server's other publishers.
    private readonly int _target = options.MaxPendingMessagesPerClient * 3 / 4;

    // A smaller capacity is not worth querying every subscriber.
    private readonly int _minCapacity = Math.Max(1, options.MaxPendingMessagesPerClient / 4);

    private readonly HashSet<string> _slow = new(StringComparer.Ordinal);
    private volatile int _slowCount;

    public int SlowSubscribers => _slowCount;

    /// <summary>Waits until the queue of every subscriber has capacity, except for those that were given up.</summary>
    /// <remarks>It waits for all full queues at the same time, so that many slow subscribers delay a send no longer than one.</remarks>
    /// <returns>The number of messages that may be injected now.</returns>
    public async ValueTask<int> WaitAsync(CancellationToken cancellationToken)
    {
        var clients = await server.GetClientsAsync().ConfigureAwait(false);
        ForgetDisconnected(clients);
        var start = timeProvider.GetTimestamp();
        int capacity;
        while (IsFull(clients, out capacity))
        {
            if (timeProvider.GetElapsedTime(start) >= options.SlowSubscriberTimeout)
                GiveUpFull(clients);
            else
                await Task.Delay(PollInterval, timeProvider, cancellationToken).ConfigureAwait(false);
        }

        return capacity;
    }

    // True when the queue of a subscriber that is not given up is full.
    private bool IsFull(IList<MqttClientStatus> clients, out int capacity)
    {
        capacity = _target;
        foreach (var client in clients)
        {
            if (!IsGivenUp(client.Session))
                capacity = Math.Min(capacity, CapacityOf(client.Session));
        }

        return capacity < _minCapacity;
    }

    private void GiveUpFull(IList<MqttClientStatus> clients)
    {
        foreach (var client in clients)
        {
            if (!IsGivenUp(client.Session) && CapacityOf(client.Session) < _minCapacity)
                GiveUp(client.Session);
        }
    }

    private int CapacityOf(MqttSessionStatus session) => _target - (int)session.PendingApplicationMessagesCount;

    private bool IsGivenUp(MqttSessionStatus session)
    {
        if (_slow.Count == 0 || !_slow.Contains(session.Id))
            return false;
        if (session.PendingApplicationMessagesCount > options.MaxPendingMessagesPerClient / 2)
            return true;
        _slow.Remove(session.Id);
        _slowCount = _slow.Count;
        Log.SubscriberReads(logger, session.Id, drops.DroppedMessages);
        return false;
    }

    private void GiveUp(MqttSessionStatus session)
    {
        _slow.Add(session.Id);
        _slowCount = _slow.Count;
        Log.SubscriberGivenUp(logger, session.Id, _minCapacity, options.SlowSubscriberTimeout);
    }

    private void ForgetDisconnected(IList<MqttClientStatus> clients)
    {
        if (_slow.Count == 0)
            return;
        _slow.IntersectWith(clients.Select(static client => client.Id));
        _slowCount = _slow.Count;
    }
}

/// <summary>Counts the messages that the server drops. The server raises one event when it drops the oldest message and another when it drops the newest.</summary>
internal sealed class DropCounter : IDisposable
{
    private readonly MqttServer _server;
    private long _droppedMessages;

    public DropCounter(MqttServer server)
    {
        _server = server;
        server.QueuedApplicationMessageOverwrittenAsync += OnOverwrittenAsync;
        server.ApplicationMessageEnqueuedOrDroppedAsync += OnEnqueuedOrDroppedAsync;
    }

    public long DroppedMessages => Interlocked.Read(ref _droppedMessages);

    public void Dispose()
    {
        _server.QueuedApplicationMessageOverwrittenAsync -= OnOverwrittenAsync;
        _server.ApplicationMessageEnqueuedOrDroppedAsync -= OnEnqueuedOrDroppedAsync;
    }

    private Task OnOverwrittenAsync(QueueMessageOverwrittenEventArgs occurrence)
    {
        Interlocked.Increment(ref _droppedMessages);
        return Task.CompletedTask;
    }

    private Task OnEnqueuedOrDroppedAsync(ApplicationMessageEnqueuedEventArgs occurrence)
    {
        if (occurrence.IsDropped)
            Interlocked.Increment(ref _droppedMessages);
        return Task.CompletedTask;
    }
}

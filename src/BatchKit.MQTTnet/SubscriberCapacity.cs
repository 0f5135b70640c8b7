using MQTTnet.Server;
using Microsoft.Extensions.Logging;

namespace BatchKit.MQTTnet;

/// <summary>
/// Finds out how many messages every connected subscriber has room for, and waits for those that are full, each within a limit. One send at a time asks it and injects what it grants, so
/// that no two fill the same room.
/// </summary>
internal sealed class SubscriberCapacity(MqttServer server, MqttServerTransportOptions options, DropCounter drops, TimeProvider timeProvider, ILogger logger)
{
    // The server does not say when it has sent something; at 80,000 messages a second, its best, it sends a tenth of its default queue meanwhile.
    private static readonly TimeSpan LookInterval = TimeSpan.FromMilliseconds(1);

    // The rest of the queue is for the server's other publishers.
    private readonly int _target = options.MaxPendingMessagesPerClient * 3 / 4;

    // Fewer are not worth a look at every subscriber.
    private readonly int _minRoom = Math.Max(1, options.MaxPendingMessagesPerClient / 4);

    private readonly HashSet<string> _slow = new(StringComparer.Ordinal);
    private volatile int _slowCount;

    public int SlowSubscribers => _slowCount;

    /// <summary>Waits until every subscriber that is waited for has room for some messages.</summary>
    /// <returns>How many messages may be injected now.</returns>
    public async ValueTask<int> WaitAsync(CancellationToken cancellationToken)
    {
        var clients = await server.GetClientsAsync().ConfigureAwait(false);
        ForgetGone(clients);
        var room = _target;
        foreach (var client in clients)
        {
            var session = client.Session;
            if (IsGivenUp(session))
                continue;
            if (RoomOf(session) < _minRoom && !await WaitForAsync(client, cancellationToken).ConfigureAwait(false))
                GiveUp(session);
            else
                room = Math.Min(room, Math.Max(_minRoom, RoomOf(session)));
        }

        return room;
    }

    private async ValueTask<bool> WaitForAsync(MqttClientStatus client, CancellationToken cancellationToken)
    {
        var began = timeProvider.GetTimestamp();
        while (RoomOf(client.Session) < _minRoom)
        {
            if (timeProvider.GetElapsedTime(began) >= options.SlowSubscriberTimeout)
                return false;
            await Task.Delay(LookInterval, timeProvider, cancellationToken).ConfigureAwait(false);
        }

        return true;
    }

    private int RoomOf(MqttSessionStatus session) => _target - (int)session.PendingApplicationMessagesCount;

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
        Log.SubscriberGivenUp(logger, session.Id, _minRoom, options.SlowSubscriberTimeout);
    }

    private void ForgetGone(IList<MqttClientStatus> clients)
    {
        if (_slow.Count == 0)
            return;
        _slow.IntersectWith(clients.Select(static client => client.Id));
        _slowCount = _slow.Count;
    }
}

/// <summary>Counts what the server drops, by either of its strategies: the oldest, which it says in one event, or the new one, which it says in another.</summary>
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

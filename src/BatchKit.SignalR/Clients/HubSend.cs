namespace BatchKit.SignalR.Clients;

/// <summary>One send of the transport: the clients that it has queued something for.</summary>
internal sealed class HubSend
{
    private static long _lastId;

    private readonly List<HubClient> _clients = [];

    /// <summary>Its number, by which a client knows whether it has begun to queue for it.</summary>
    public long Id { get; } = Interlocked.Increment(ref _lastId);

    public void Add(HubClient client) => _clients.Add(client);

    /// <summary>Writes to each client at most once, and completes when no client that still reads is far behind.</summary>
    public ValueTask WriteAsync(CancellationToken cancellationToken)
    {
        List<Task>? behind = null;
        foreach (var client in _clients)
        {
            client.Write();
            if (client.IsBehind)
                (behind ??= []).Add(client.CatchUpAsync(cancellationToken));
        }

        return behind is null ? default : new ValueTask(Task.WhenAll(behind));
    }
}

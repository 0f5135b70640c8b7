using System.Runtime.InteropServices;
using BatchKit.SignalR.Records;

namespace BatchKit.SignalR.Clients;

/// <summary>One send of the transport: the clients that it has queued something for.</summary>
internal sealed class HubSend(ClientLimits limits)
{
    private static long _lastId;

    // One that another send has queued for meanwhile is there once more.
    private readonly List<(HubClient Client, long Bytes)> _clients = [];
    private EncodedRun[] _parts = [];
    private EncodedRun? _joined;
    private Written _written;

    /// <summary>Its number, by which a client knows whether it has begun to queue for it.</summary>
    public long Id { get; } = Interlocked.Increment(ref _lastId);

    /// <returns>The client's place.</returns>
    public int Add(HubClient client)
    {
        _clients.Add((client, 0));
        return _clients.Count - 1;
    }

    /// <summary>Counts what was queued for the client at a place.</summary>
    public void AddBytes(int place, int bytes) => CollectionsMarshal.AsSpan(_clients)[place].Bytes += bytes;

    /// <summary>Counts a write, for all together.</summary>
    public void Count(Written written) => _written += written;

    /// <summary>Joins runs for a client, which holds the result. Most clients of a send have the same ones.</summary>
    public EncodedRun Join(List<EncodedRun> runs)
    {
        if (_joined is null || !runs.SequenceEqual(_parts))
        {
            _joined?.Release();
            (_parts, _joined) = ([.. runs], EncodedRun.Join(runs));
        }

        return _joined.Hold();
    }

    /// <summary>Writes to each client at most once, and completes when no client that still reads is far behind.</summary>
    public ValueTask WriteAsync(CancellationToken cancellationToken)
    {
        List<Task>? behind = null;
        foreach (var (client, bytes) in _clients)
        {
            if (!client.Write(this) && !client.TryEnd(bytes))
                (behind ??= []).Add(client.CatchUpAsync(bytes, cancellationToken));
        }

        _joined?.Release();
        limits.Count(_written);
        return behind is null ? default : new ValueTask(Task.WhenAll(behind));
    }
}

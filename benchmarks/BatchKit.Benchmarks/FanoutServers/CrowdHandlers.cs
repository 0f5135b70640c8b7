using BatchKit.Broadcast;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>Lets each client join its groups, or keeps it as a single one.</summary>
internal sealed class CrowdHandlers(FanoutCrowd crowd, IOutputBuffer output)
{
    private readonly List<OutputHandle> _singles = [];
    private int _started;
    private int _joined;

    public int Joined => Volatile.Read(ref _joined);

    /// <summary>Those in no group.</summary>
    public OutputHandle[] Singles
    {
        get
        {
            lock (_singles)
                return [.. _singles];
        }
    }

    public IConnectionHandler Make(ClientConnection connection) => new Handler(this, connection);

    private void Join(ClientConnection connection)
    {
        var groups = crowd.GroupsOf(Interlocked.Increment(ref _started) - 1);
        foreach (var group in groups)
            output.Write(connection.Handle, ControlMessage.JoinGroup(group));
        if (groups.Count == 0)
        {
            lock (_singles)
                _singles.Add(connection.Handle);
        }

        Interlocked.Increment(ref _joined);
    }

    private sealed class Handler(CrowdHandlers crowd, ClientConnection connection) : IConnectionHandler
    {
        public ValueTask StartAsync(CancellationToken cancellationToken)
        {
            crowd.Join(connection);
            return default;
        }

        public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken) => default;
    }
}

using System.Net;
using BatchKit.Broadcast;

namespace BatchKit.Benchmarks.Scopes;

/// <summary>An output buffer with default options over BatchKit's last hop, and the handles of the clients that connected.</summary>
internal sealed class LoopServer : IDisposable
{
    private static readonly TimeSpan ConnectTimeout = TimeSpan.FromSeconds(10);

    private readonly BroadcastTransport _transport = new(new BroadcastOptions { KeepAliveInterval = null, MaxConnectionsPerAddress = 100_000, TextInputLimits = null });
    private readonly BroadcastListener _listener;
    private readonly List<OutputHandle> _handles = [];

    public LoopServer()
    {
        Output = new OutputBuffer(_transport);
        var options = new BroadcastListenerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0) };
        _listener = new BroadcastListener(_transport, options, connection => new Handler(_handles, connection.Handle));
        _listener.StartAsync(CancellationToken.None).GetAwaiter().GetResult();
    }

    public OutputBuffer Output { get; }

    public int Port => _listener.EndPoint.Port;

    /// <summary>Waits until so many clients have connected.</summary>
    /// <exception cref="InvalidOperationException">They did not within 10 s.</exception>
    public OutputHandle[] AwaitHandles(int count)
    {
        if (!SpinWait.SpinUntil(() => CountHandles() == count, ConnectTimeout))
            throw new InvalidOperationException($"{CountHandles()} of {count} clients connected.");
        return [.. _handles];
    }

    public void Dispose()
    {
        Output.DisposeAsync().AsTask().GetAwaiter().GetResult();
        _transport.DisposeAsync().AsTask().GetAwaiter().GetResult();
        _listener.DisposeAsync().AsTask().GetAwaiter().GetResult();
    }

    private int CountHandles()
    {
        lock (_handles)
            return _handles.Count;
    }

    private sealed class Handler(List<OutputHandle> handles, OutputHandle handle) : IConnectionHandler
    {
        public ValueTask StartAsync(CancellationToken cancellationToken)
        {
            lock (handles)
                handles.Add(handle);
            return default;
        }

        public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken) => default;
    }
}

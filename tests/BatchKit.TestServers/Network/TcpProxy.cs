using System.Net;
using System.Net.Sockets;
using System.Text;

namespace BatchKit.TestServers.Network;

/// <summary>Stands between a client and a server on loopback, forwards, and breaks connections on demand.</summary>
public sealed class TcpProxy : IAsyncDisposable
{
    private readonly string _host;
    private volatile int _port;
    private readonly TcpListener _listener = new(IPAddress.Loopback, port: 0);
    private readonly CancellationTokenSource _stopping = new();
    private readonly Task _accepting;
    private readonly Lock _gate = new();
    private readonly List<ProxiedConnection> _connections = [];

    private long _bytesUntilCut = -1;
    private int _methodsToLose;
    private volatile bool _losesChannelOpens;
    private TaskCompletionSource? _stall;
    private volatile string _stalledText = "";

    private TcpProxy(string host, int port, int? bufferBytes)
    {
        BufferBytes = bufferBytes;
        _host = host;
        _port = port;
        _listener.Start();
        Port = ((IPEndPoint)_listener.LocalEndpoint).Port;
        _accepting = AcceptAsync();
    }

    /// <summary>Where clients connect, on 127.0.0.1.</summary>
    public int Port { get; }

    /// <summary>Connections that were accepted so far.</summary>
    public int AcceptedConnections { get; private set; }

    /// <summary>Connections that both sides have not ended yet.</summary>
    public int OpenConnections
    {
        get
        {
            lock (_gate)
                return _connections.Count(static connection => !connection.Completion.IsCompleted);
        }
    }

    /// <summary>How fast it forwards what servers send; null, the default, for as fast as clients read.</summary>
    public int? BytesPerSecond { get; set; }

    /// <summary>How much of that it takes before it forwards it; null for what the system takes.</summary>
    internal int? BufferBytes { get; }

    /// <summary>Starts to listen on a free port and to forward to a server.</summary>
    /// <param name="host">The server.</param>
    /// <param name="port">Its port.</param>
    /// <param name="bufferBytes">How much that servers send it takes before it forwards it, as a thin line does; null for what the system takes.</param>
    public static TcpProxy Start(string host, int port, int? bufferBytes = null) => new(host, port, bufferBytes);

    /// <summary>Forwards new connections to another port, as a load balancer does whose server ends.</summary>
    public void ForwardTo(int port) => _port = port;

    /// <summary>Resets all connections (RST), as a crashed host or a strict firewall does.</summary>
    public void ResetAll()
    {
        lock (_gate)
        {
            foreach (var connection in _connections)
                connection.Reset();
        }
    }

    /// <summary>Resets whichever connection carries the given byte to the server, counted from now over all of them, after forwarding those before it.</summary>
    public void CutAfter(long bytes) => Interlocked.Exchange(ref _bytesUntilCut, bytes);

    /// <summary>Forwards nothing until <see cref="Resume"/>, in either direction; connections stay open.</summary>
    public void Stall() => Stall("");

    /// <summary>Forwards no bytes that contain a text, nor what follows them, until <see cref="Resume"/>; other connections work.</summary>
    public void Stall(string text)
    {
        _stalledText = text;
        Interlocked.CompareExchange(ref _stall, new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously), null);
    }

    /// <summary>Forwards nothing more for the connections that there are, as a router does that has forgotten them; new ones work.</summary>
    public void Silence()
    {
        lock (_gate)
        {
            foreach (var connection in _connections)
                connection.Silence();
        }
    }

    /// <summary>Loses the next so many acknowledgements that clients of an AMQP broker send over the connections that there are. Call it while none of their frames is under way.</summary>
    public void LoseAcknowledgements(int count)
    {
        Interlocked.Exchange(ref _methodsToLose, count);
        lock (_gate)
        {
            foreach (var connection in _connections)
                connection.Lose(MethodLoss.BasicAck);
        }
    }

    /// <summary>Loses the next so many requests of clients of an AMQP broker to open a channel, over connections that come later.</summary>
    public void LoseChannelOpens(int count)
    {
        Interlocked.Exchange(ref _methodsToLose, count);
        _losesChannelOpens = true;
    }

    /// <summary>Goes on after <see cref="Stall"/>.</summary>
    public void Resume() => Interlocked.Exchange(ref _stall, null)?.TrySetResult();

    /// <inheritdoc/>
    public async ValueTask DisposeAsync()
    {
        await _stopping.CancelAsync();
        _listener.Dispose();
        await _accepting;
        Resume();
        ResetAll();
        Task[] running;
        lock (_gate)
            running = [.. _connections.Select(connection => connection.Completion)];
        await Task.WhenAll(running);
        _stopping.Dispose();
    }

    internal Task WhileStalledAsync(ReadOnlySpan<byte> bytes) =>
        Volatile.Read(ref _stall) is { } stall && bytes.IndexOf(Encoding.UTF8.GetBytes(_stalledText)) >= 0 ? stall.Task : Task.CompletedTask;

    /// <summary>How many of these bytes for the server may pass; fewer than given means that the connection is to be cut after them.</summary>
    internal int Pass(int bytes)
    {
        while (true)
        {
            var left = Interlocked.Read(ref _bytesUntilCut);
            if (left < 0)
                return bytes;
            var cuts = left < bytes;
            if (Interlocked.CompareExchange(ref _bytesUntilCut, cuts ? -1 : left - bytes, left) == left)
                return cuts ? (int)left : bytes;
        }
    }

    internal bool LosesMethod() => Interlocked.Decrement(ref _methodsToLose) >= 0;

    private async Task AcceptAsync()
    {
        while (!_stopping.IsCancellationRequested)
        {
            Socket client;
            try
            {
                client = await _listener.AcceptSocketAsync(_stopping.Token);
            }
            catch (Exception exception) when (exception is OperationCanceledException or SocketException or ObjectDisposedException)
            {
                return;
            }

            lock (_gate)
            {
                AcceptedConnections++;
                _connections.RemoveAll(connection => connection.Completion.IsCompleted);
                var connection = new ProxiedConnection(this, client);
                if (_losesChannelOpens)
                    connection.Lose(MethodLoss.ChannelOpen);
                connection.Start(_host, _port);
                _connections.Add(connection);
            }
        }
    }
}

using System.Net;
using System.Threading.Channels;
using BatchKit.Testing;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tests.Tcp;

/// <summary>A listener on a free port, with all that it needs. By default its clients are answered each record and a line's end, and its clock stands still: no time limit ends before a client on a busy machine has come so far.</summary>
internal sealed class TcpServer : IAsyncDisposable
{
    private readonly Channel<ScriptedHandler> _handlers = Channel.CreateUnbounded<ScriptedHandler>();

    private TcpServer(BroadcastOptions options, BroadcastListenerOptions listener, TimeProvider clock)
    {
        Transport = new BroadcastTransport(options, timeProvider: clock);
        Output = new OutputBuffer(Transport);
        Listener = new BroadcastListener(Transport, listener, MakeHandler, Output, clock, new Logger<BroadcastListener>(Log));
    }

    public LogCollector Log { get; } = new();

    public BroadcastTransport Transport { get; }

    public OutputBuffer Output { get; }

    public BroadcastListener Listener { get; }

    public IPEndPoint EndPoint => Listener.EndPoint;

    public Func<ScriptedHandler, string, CancellationToken, ValueTask> OnRecord { get; set; } = static (handler, record, _) =>
    {
        handler.Write(record + "\n");
        return default;
    };

    public Action OnStart { get; set; } = static () => { };

    /// <summary>What handlers answer at the end of a client's input.</summary>
    public bool StaysOpen { get; set; }

    public static async Task<TcpServer> StartAsync(BroadcastOptions? options = null, Action<BroadcastListenerOptions>? configure = null, TimeProvider? clock = null)
    {
        var listener = new BroadcastListenerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0) };
        configure?.Invoke(listener);
        var server = new TcpServer(options ?? new BroadcastOptions(), listener, clock ?? new ManualTimeProvider());
        await server.Listener.StartAsync(CancellationToken.None);
        return server;
    }

    /// <summary>Waits until the listener holds no place for anybody.</summary>
    public Task WhenEmptyAsync() => Until.TrueAsync(() => Transport.Connections is { Count: 0, Places: 0, Addresses: 0 });

    public Task<ScriptedHandler> NextHandlerAsync() => _handlers.Reader.ReadAsync().WithinDeadline();

    /// <summary>Waits for a log entry with this id, and returns its text.</summary>
    public async Task<string> LoggedAsync(int id)
    {
        await Log.WaitForAsync(id);
        return Log.Entries.First(entry => entry.Id == id).Text;
    }

    public async ValueTask DisposeAsync()
    {
        await Listener.DisposeAsync().WithinDeadline();
        await Output.DisposeAsync().WithinDeadline();
        await Transport.DisposeAsync().WithinDeadline();
    }

    private ScriptedHandler MakeHandler(ClientConnection connection)
    {
        var handler = new ScriptedHandler(connection, this);
        _handlers.Writer.TryWrite(handler);
        return handler;
    }
}

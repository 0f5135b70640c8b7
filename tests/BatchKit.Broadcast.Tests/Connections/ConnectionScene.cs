using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Receiving;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.Broadcast.Tests.Connections;

/// <summary>One connection that runs on a manual clock, with a wire, an input and a handler that do what a test says.</summary>
internal sealed class ConnectionScene : IConnectionHandler, IInbound, IAsyncDisposable
{
    private readonly TaskCompletionSource<InboundEnd> _input = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly TaskCompletionSource<DisconnectReason> _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private int _calls;

    public ConnectionScene(ILogger? logger = null)
    {
        Transport = new BroadcastTransport(timeProvider: Clock);
        Place = new ClientPlace(Transport.Connections);
        Place.TryTake(address: null);
        Connection = new ClientConnection(
            Transport.Connections.NextHandle(), ClientProtocol.Tcp, new ConnectionOrigin(RemoteEndPoint: null, IsSecure: false),
            new SendQueue(Wire, Transport.Limits, Transport.Counters, Clock), WireFormat.Raw, Clock);
        Lifetime = new ConnectionLifetime(Transport, output: null, Clock, logger ?? NullLogger.Instance);
    }

    public ManualTimeProvider Clock { get; } = new();

    public FakeWire Wire { get; } = new();

    public BroadcastTransport Transport { get; }

    public ClientPlace Place { get; }

    public ClientConnection Connection { get; }

    public ConnectionLifetime Lifetime { get; }

    public bool JoinsGroup { get; init; } = true;

    public bool RequiresAuthentication { get; init; }

    /// <summary>What the handler does with its start; nothing by default.</summary>
    public Func<CancellationToken, Task> OnStart { get; init; } = _ => Task.CompletedTask;

    /// <summary>What the handler does with each record; nothing by default.</summary>
    public Func<CancellationToken, Task> OnReceive { get; init; } = _ => Task.CompletedTask;

    /// <summary>What the handler answers at the end of the input.</summary>
    public Func<CancellationToken, Task<bool>> OnFinish { get; init; } = _ => Task.FromResult(false);

    /// <summary>The most calls of the handler that ran at the same time.</summary>
    public int MostCalls { get; private set; }

    public Task<DisconnectReason> Ended => _ended.Task;

    public Task Running { get; private set; } = Task.CompletedTask;

    /// <summary>Runs the connection, as a member of the group "hall" if it joins.</summary>
    public void Start()
    {
        Running = Lifetime.RunAsync(Connection, this, _ => this, Place);
        if (JoinsGroup)
            Transport.Groups.Join(Connection, "hall");
    }

    public void EndInput(InboundEnd end) => _input.SetResult(end);

    /// <summary>Waits until it holds nothing of the transport any more.</summary>
    public Task WhenFreeAsync() => Until.TrueAsync(() => Transport.Connections is { Count: 0, Places: 0 } && Transport.Groups.Count == 0);

    public Task SendAsync(string text) => Transport.SendAsync(Deliveries.To(Connection.Handle, text));

    public async Task<InboundEnd> RunAsync(InboundDelivery delivery, CancellationToken cancellationToken)
    {
        await delivery.DeliverAsync(new[] { new ReceivedRecord("a record"u8.ToArray()) }, cancellationToken);

        // A real input ends when its socket is closed.
        return await _input.Task.WaitAsync(cancellationToken);
    }

    public async ValueTask StartAsync(CancellationToken cancellationToken) => await CallAsync(OnStart(cancellationToken));

    public async ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken) => await CallAsync(OnReceive(cancellationToken));

    public async ValueTask<bool> FinishAsync(CancellationToken cancellationToken)
    {
        var finishing = OnFinish(cancellationToken);
        await CallAsync(finishing);
        return await finishing;
    }

    public async ValueTask EndAsync(DisconnectReason reason)
    {
        await CallAsync(Task.CompletedTask);
        _ended.SetResult(reason);
    }

    public ValueTask DisposeAsync() => Transport.DisposeAsync();

    private async Task CallAsync(Task call)
    {
        MostCalls = Math.Max(MostCalls, Interlocked.Increment(ref _calls));
        try
        {
            await call;
        }
        finally
        {
            Interlocked.Decrement(ref _calls);
        }
    }
}

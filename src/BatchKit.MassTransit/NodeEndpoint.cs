using BatchKit.Diagnostics;
using BatchKit.RabbitMQ;
using BatchKit.Transports;
using MassTransit;
using Microsoft.Extensions.Logging;

namespace BatchKit.MassTransit;

/// <summary>The receive endpoint of a node's queue, connected to a bus and started again when it fails on RabbitMQ.</summary>
/// <remarks>
/// MassTransit starts an endpoint again too, but its pauses grow to 30 s and stay long after the failure, and MassTransit 8.4 ends an endpoint when the broker does not open a channel in time.
/// </remarks>
internal sealed class NodeEndpoint(BusConnection connection, EndpointWatch watch, Func<string> queue, Action<IReceiveEndpointConfigurator, EndpointRun> configure, TimeProvider timeProvider) : IDisposable
{
    // How long an endpoint may take to end, besides the frame that is being received.
    private static readonly TimeSpan EndLimit = TimeSpan.FromSeconds(2);

    // Between two looks at whether the application's bus has started.
    private static readonly TimeSpan BusPause = TimeSpan.FromMilliseconds(50);

    // Between two attempts on the application's bus, which has no setting for it.
    private static readonly TimeSpan RestartPause = TimeSpan.FromSeconds(5);

    private readonly CancellationTokenSource _ending = new();
    private EndpointRun? _run;
    private HostReceiveEndpointHandle? _handle;
    private Task _keeping = Task.CompletedTask;

    /// <summary>Connects the endpoint, at once or when the application's bus has started: MassTransit fails to start a bus whose endpoints change meanwhile.</summary>
    public void Start()
    {
        TryConnect();
        _keeping = KeepAsync();
    }

    /// <summary>Ends the endpoint. Completes when it has ended.</summary>
    public async Task StopAsync()
    {
        await _ending.CancelAsync().ConfigureAwait(false);
        await _keeping.ConfigureAwait(false);
        if (_handle is not null)
            await _handle.StopAsync(CancellationToken.None).ConfigureAwait(false);
    }

    public void Dispose() => _ending.Dispose();

    private async Task KeepAsync()
    {
        try
        {
            if (_handle is null)
                await ConnectAsync().ConfigureAwait(false);
            while (connection.Topology is RabbitMqTopology)
            {
                await watch.WaitForFaultAsync(_ending.Token).ConfigureAwait(false);
                await RestartAsync(_handle!).ConfigureAwait(false);
            }
        }
        catch (OperationCanceledException) when (_ending.IsCancellationRequested)
        {
            watch.IsRestarting = false;
        }
    }

    // False while the application's bus has not started.
    private bool TryConnect()
    {
        if (connection.IsStarted)
        {
            var run = _run = new EndpointRun(watch, connection);
            _handle = connection.Bus.ConnectReceiveEndpoint(queue(), endpoint => configure(endpoint, run));
        }

        return _handle is not null;
    }

    private async Task ConnectAsync()
    {
        while (true)
        {
            _ending.Token.ThrowIfCancellationRequested();
            try
            {
                if (TryConnect())
                    return;
            }
            catch (Exception exception)
            {
                watch.SetFault(FailureText.MessageOf(exception));
            }

            await Task.Delay(BusPause, timeProvider, _ending.Token).ConfigureAwait(false);
        }
    }

    private async Task RestartAsync(HostReceiveEndpointHandle handle)
    {
        watch.IsRestarting = true;
        var stop = handle.ReceiveEndpoint.Stop(_ending.Token);
        do
        {
            await stop.WaitAsync(EndLimit, timeProvider, _ending.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            _ending.Token.ThrowIfCancellationRequested();
        }
        while (!stop.IsCompleted && watch.Deliveries.HasFrame);
        await Task.Delay(connection.Options.RabbitMq?.ReconnectDelay ?? RestartPause, timeProvider, _ending.Token).ConfigureAwait(false);
        watch.IsRestarting = false;
        if (stop.IsCompletedSuccessfully)
        {
            Restart(handle.ReceiveEndpoint);
            return;
        }

        // It waits for a consumer that was never told of its channel's end. What it reports and throws from now on is of no use to anyone.
        _run!.Abandon();
        _ = handle.StopAsync(CancellationToken.None).ContinueWith(static abandoned => abandoned.Exception, TaskScheduler.Default);
        _ = stop.ContinueWith(static abandoned => abandoned.Exception, TaskScheduler.Default);
        _handle = null;
        await ConnectAsync().ConfigureAwait(false);
    }

    private static void Restart(IReceiveEndpoint endpoint)
    {
        try
        {
            endpoint.Start(CancellationToken.None);
        }
        catch (InvalidOperationException)
        {
            // The bus was started again meanwhile, and has started it.
        }
    }
}

/// <summary>Tracks whether a receive endpoint receives, and why not.</summary>
internal sealed class EndpointWatch(Func<string> queue, BusConnection connection, ConnectionReporter reporter, TimeProvider timeProvider, ReceiverLog log)
{
    private readonly TaskCompletionSource _ready = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private volatile TaskCompletionSource _faulted = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private volatile string? _fault = "The receiver has not started.";
    private volatile string? _topologyFault;
    private volatile bool _isInterrupted;
    private volatile bool _isStopping;
    private volatile bool _isRestarting;

    public TimeProvider TimeProvider => timeProvider;

    /// <summary>True once the endpoint is told to stop.</summary>
    public bool IsStopping => _isStopping;

    /// <summary>Whether frames come.</summary>
    public DeliveryWatch Deliveries { get; } = new();

    /// <summary>Whether the frame that has come is handed on.</summary>
    public HeldFrame Held { get; } = new(timeProvider);

    /// <summary>Why it receives nothing now; null while it receives.</summary>
    public string? Fault => (_isStopping && !_isRestarting ? null : connection.Link?.Fault) ?? _fault ?? _topologyFault ?? Held.Fault;

    /// <summary>Completes when the endpoint receives for the first time.</summary>
    public Task FirstReady => _ready.Task;

    /// <summary>True while BatchKit stops the endpoint in order to start it again.</summary>
    public bool IsRestarting
    {
        set
        {
            // What it reports meanwhile comes from its end.
            if (!value)
                _faulted = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            _isRestarting = _isStopping = value;
        }
    }

    /// <summary>What the application's callback has thrown, in a sentence; null when it has thrown nothing.</summary>
    public string? CallbackFault => reporter.CallbackFault;

    /// <summary>Sets what is wrong with the exchanges, the bindings or the node's number; null when nothing is. A repeat is not logged: how many frames wait behind a held one changes with each check.</summary>
    public void SetTopologyFault(string? fault, bool isRepeat = false)
    {
        if (fault is not null && fault != _topologyFault && !isRepeat)
            log.Impaired(queue(), fault);
        _topologyFault = fault;
    }

    /// <summary>Completes when the endpoint fails and is not told to stop.</summary>
    public Task WaitForFaultAsync(CancellationToken cancellationToken) => _faulted.Task.WaitAsync(cancellationToken);

    /// <summary>Sets why the endpoint can't be connected.</summary>
    public void SetFault(string fault) => _fault = fault;

    /// <summary>Reports that the bus has no connection.</summary>
    public void Lose(string? reason)
    {
        // The endpoint itself reports that it receives.
        if (reason is not null && (!_isStopping || _isRestarting))
            reporter.Lose(reason);
    }

    public void Ready()
    {
        _fault = null;
        _isInterrupted = _isStopping = false;
        _ready.TrySetResult();
        log.Receiving(queue(), connection.Target);
        reporter.Open();
    }

    public void Stop()
    {
        _isStopping = true;
        if (_isRestarting)
            return;
        _fault = "The receiver has stopped.";
        reporter.Close();
    }

    public void Complete()
    {
        // A stop sets its own reason first.
        if (_fault is not null)
            return;
        connection.Age.Restart();
        _fault = "The receiver's connection ended.";
        reporter.Lose(_fault);
    }

    public void Fail(Exception? exception)
    {
        connection.Age.Restart();
        var cause = exception is null ? null : FailureText.CauseOf(exception);
        var reason = cause is null ? "the connection ended" : RabbitMqClosing.Explain(cause) ?? FailureText.MessageOf(cause);
        // The client may throw this in place of what the broker answered, when MassTransit disposes a channel during a call. It tells no one anything.
        if (cause is not ObjectDisposedException || !_isInterrupted)
            _fault = reason;
        // MassTransit calls this for each failed attempt to connect, and for the last one when the receiver stops; only the first of an outage is logged.
        if (!_isInterrupted && (!_isStopping || _isRestarting))
            log.Ended(queue(), reason);
        _isInterrupted = true;
        reporter.Lose(reason);
        if (!_isStopping)
            _faulted.TrySetResult();
    }
}

/// <summary>One receive endpoint of a node's queue. Passes on what it reports, until it is abandoned for a successor.</summary>
internal sealed class EndpointRun(EndpointWatch watch, BusConnection connection) : IReceiveEndpointObserver
{
    private volatile bool _isAbandoned;

    public TimeProvider TimeProvider => watch.TimeProvider;

    public bool IsAbandoned => _isAbandoned;

    /// <summary>True once the endpoint is told to stop.</summary>
    public bool IsStopping => _isAbandoned || watch.IsStopping;

    /// <summary>Whether frames come.</summary>
    public DeliveryWatch Deliveries => watch.Deliveries;

    /// <summary>How many connections the bus has had; 0 on the application's bus.</summary>
    public int Connections => connection.Link?.Connections ?? 0;

    /// <summary>Another endpoint takes over. This one receives nothing more, whenever its stop ends.</summary>
    public void Abandon() => _isAbandoned = true;

    /// <summary>Reports that its channel has ended.</summary>
    public void Complete()
    {
        if (!IsStopping)
            watch.Complete();
    }

    /// <summary>Sets what is wrong with the exchanges, the bindings, the node's number or the frame in hand; null when nothing is.</summary>
    public void SetTopologyFault(string? fault, bool isRepeat = false)
    {
        if (!_isAbandoned)
            watch.SetTopologyFault(fault, isRepeat);
    }

    /// <summary>Reports that it can't receive.</summary>
    public void Fail(Exception? exception)
    {
        if (!_isAbandoned)
            watch.Fail(exception);
    }

    public Task Ready(ReceiveEndpointReady ready) => Pass(watch.Ready);

    public Task Stopping(ReceiveEndpointStopping stopping) => Pass(watch.Stop);

    public Task Completed(ReceiveEndpointCompleted completed) => Pass(watch.Complete);

    public Task Faulted(ReceiveEndpointFaulted faulted) => Pass(() => watch.Fail(faulted.Exception));

    private Task Pass(Action report)
    {
        if (!_isAbandoned)
            report();
        return Task.CompletedTask;
    }
}

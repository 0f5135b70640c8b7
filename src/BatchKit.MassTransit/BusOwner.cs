using BatchKit.Diagnostics;
using BatchKit.Transports;
using MassTransit;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.MassTransit;

/// <summary>Finds or creates a buffer's bus. Starts the buffer's own bus without waiting for the broker, and stops it after the buffer has drained.</summary>
/// <remarks>
/// On RabbitMQ it creates two, because each bus has one connection: in an alarm the broker reads nothing more from a connection that publishes, and the receiver must go on acknowledging.
/// </remarks>
internal sealed class BusOwner : IBlockingDisposable
{
    private static readonly TimeSpan StartPause = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan StopLimit = TimeSpan.FromSeconds(10);

    // The buffer's own; empty for the application's.
    private readonly List<OwnBus> _buses = [];
    private readonly TimeProvider _timeProvider;
    private readonly GuardedLogger _logger;
    private readonly CancellationTokenSource _stopping = new();
    private readonly Lock _gate = new();

    // Guarded by the gate.
    private Task? _running;
    private Task? _stopped;

    // Written by the task that runs.
    private Task _keeping = Task.CompletedTask;

    /// <param name="services">Finds the application's bus, and the instruments.</param>
    /// <param name="name">The buffer's name.</param>
    /// <param name="options">The settings.</param>
    /// <param name="sends">True when the buffer sends over it.</param>
    /// <param name="receives">True when the buffer receives from it.</param>
    /// <param name="timeProvider">The clock.</param>
    /// <param name="loggers">The loggers; null for none.</param>
    public BusOwner(IServiceProvider services, string name, MassTransitOptions options, bool sends, bool receives, TimeProvider timeProvider, ILoggerFactory? loggers)
    {
        _timeProvider = timeProvider;
        options = options.Copy();
        // MassTransit calls the loggers from its own loops, which an exception of a logger must not end.
        var guarded = new GuardedLoggerFactory(loggers ?? NullLoggerFactory.Instance);
        _logger = guarded.Guard<BusOwner>();
        var age = new ConnectionAge(timeProvider);
        var metrics = services.GetKeyedService<ConnectionMetrics>(name);
        Target = options.RabbitMq is { } rabbit ? $"RabbitMQ at {rabbit.First.Host}:{rabbit.First.Port}" : "the in-memory transport";
        if (options.Bus is not null)
        {
            Target = "the application's bus";
            Sending = Receiving = new BusConnection(options.Bus(services), options, age) { Metrics = metrics };
        }
        else if (options.RabbitMq is { } broker)
        {
            var shown = broker.ConnectionName ?? (name.Length == 0 ? "BatchKit" : $"BatchKit {name}");
            Sending = sends ? Connect("sender", shown) : null;
            Receiving = receives ? Connect("receiver", $"{shown} receiver") : null;

            BusConnection Connect(string purpose, string connectionName)
            {
                var link = new BusLink(broker, purpose, Target, age, timeProvider, _logger);
                return new BusConnection(Own(() => RabbitMqBus.Create(broker, connectionName, link), link, guarded), options, age) { Metrics = metrics, Link = link };
            }
        }
        else
        {
            Sending = Receiving = new InMemoryConnection(Own(static () => Bus.Factory.CreateUsingInMemory(static _ => { }), link: null, guarded), options, age) { Metrics = metrics };
        }
    }

    /// <summary>Where the buffer sends; null when it does not.</summary>
    public BusConnection? Sending { get; }

    /// <summary>Where the buffer receives from; null when it does not.</summary>
    public BusConnection? Receiving { get; }

    /// <summary>What the bus connects to, in human-readable form.</summary>
    public string Target { get; }

    /// <summary>What the loggers have thrown, in a sentence; null when they have thrown nothing.</summary>
    public string? LoggerFault => _logger.Faults.Description;

    /// <summary>Starts to connect; the broker may be down. Does nothing for the application's bus.</summary>
    public void Start()
    {
        lock (_gate)
        {
            if (_buses.Count > 0 && _stopped is null)
                _running ??= CallerContext.RunWithout(() => Task.WhenAll(_buses.Select(RunAsync)));
        }
    }

    /// <summary>Waits until the buffer's own bus over RabbitMQ is connected, if <see cref="MassTransitOptions.FailFast"/> is set.</summary>
    /// <exception cref="IOException">The bus did not connect within the time limit.</exception>
    public async Task WaitUntilConnectedAsync(CancellationToken cancellationToken)
    {
        if ((Sending ?? Receiving)?.Options is not { FailFast: true, RabbitMq: { } rabbit } || _running is not { } running)
            return;
        try
        {
            await running.WaitAsync(rabbit.ConnectTimeout, _timeProvider, cancellationToken).ConfigureAwait(false);
        }
        catch (TimeoutException exception)
        {
            throw new IOException($"{Target} did not accept a connection within {rabbit.ConnectTimeout} ({nameof(MassTransitRabbitMqOptions.ConnectTimeout)}), and {nameof(MassTransitOptions.FailFast)} is set.", exception);
        }
    }

    public Task StopAsync()
    {
        lock (_gate)
            return _stopped ??= _running is null ? Task.CompletedTask : StopAsync(_running);
    }

    public async ValueTask DisposeAsync()
    {
        await StopAsync().ConfigureAwait(false);
        (Sending as IDisposable)?.Dispose();
        foreach (var (_, link) in _buses)
            link?.Dispose();
        _stopping.Dispose();
    }

    private IBusControl Own(Func<IBusControl> create, BusLink? link, GuardedLoggerFactory loggers)
    {
        // The bus takes its logger from the async flow that creates it.
        var outer = LogContext.Current;
        LogContext.ConfigureCurrentLogContext(loggers);
        try
        {
            var bus = create();
            _buses.Add(new OwnBus(bus, link));
            return bus;
        }
        finally
        {
            LogContext.Current = outer;
        }
    }

    private async Task RunAsync(OwnBus own)
    {
        var (bus, ownLink) = own;
        while (!_stopping.IsCancellationRequested)
        {
            try
            {
                // Completes when the bus is connected. MassTransit retries most errors without limit, but gives up after some.
                await bus.StartAsync(_stopping.Token).ConfigureAwait(false);
                ConnectionLog.Connected(_logger, ownLink?.Purpose ?? "bus", Target);
                if (Sending is { Link: { } link } && Sending.Bus == bus)
                    _keeping = link.KeepAsync(Sending.ConnectAsync);
                return;
            }
            catch (Exception exception)
            {
                if (_stopping.IsCancellationRequested)
                    return;
                Log.BusStartFailed(_logger, exception, Target);
            }

            await Task.Delay(StartPause, _timeProvider, _stopping.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
    }

    private async Task StopAsync(Task running)
    {
        await _stopping.CancelAsync().ConfigureAwait(false);
        foreach (var (_, link) in _buses)
            link?.Stop();
        using var limit = new CancellationTokenSource(StopLimit, _timeProvider);
        try
        {
            await running.WaitAsync(limit.Token).ConfigureAwait(false);
            await _keeping.WaitAsync(limit.Token).ConfigureAwait(false);
            await Task.WhenAll(_buses.Select(own => own.StopAsync(limit.Token))).ConfigureAwait(false);
        }
        catch (Exception exception)
        {
            Log.BusStopFailed(_logger, exception, Target);
        }
    }

    /// <summary>A bus of the buffer's own, and its link to RabbitMQ.</summary>
    private sealed record OwnBus(IBusControl Bus, BusLink? Link)
    {
        public async Task StopAsync(CancellationToken cancellationToken)
        {
            await Bus.StopAsync(cancellationToken).ConfigureAwait(false);
            if (Link is not null)
                await Link.Alarm.Ended.WaitAsync(cancellationToken).ConfigureAwait(false);
        }
    }
}

/// <summary>Starts a buffer's own bus before its users, and stops it after all hosted services, because the buffer drains over it.</summary>
internal sealed class BusHostedService(BusOwner owner, MassTransitReceiver? lastReceiver, IServiceProvider services) : IHostedLifecycleService
{
    public Task StartingAsync(CancellationToken cancellationToken) => HostedPart.StartAsync(ConnectAsync, services, cancellationToken);

    public Task StartAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StartedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StoppingAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public async Task StoppedAsync(CancellationToken cancellationToken)
    {
        if (lastReceiver is not null)
            await lastReceiver.StopAsync(cancellationToken).ConfigureAwait(false);
        await owner.StopAsync().ConfigureAwait(false);
    }

    private async Task ConnectAsync(CancellationToken cancellationToken)
    {
        owner.Start();
        await owner.WaitUntilConnectedAsync(cancellationToken).ConfigureAwait(false);
        // Before any hosted service starts, because the handles that hosted services create contain the node's number.
        if (lastReceiver is not null)
            await lastReceiver.LeaseAsync(cancellationToken).ConfigureAwait(false);
    }
}

/// <summary>Starts a receiver with the host, and stops it before the buffers drain. A receiver of a bus that loses its messages at the stop is stopped later.</summary>
internal sealed class ReceiverHostedService(MassTransitReceiver receiver, BusOwner owner) : IHostedService
{
    public Task StartAsync(CancellationToken cancellationToken)
    {
        owner.Start();
        return receiver.StartAsync(cancellationToken);
    }

    public Task StopAsync(CancellationToken cancellationToken) =>
        owner.Receiving!.IsLostAtStop ? Task.CompletedTask : receiver.StopAsync(cancellationToken);
}

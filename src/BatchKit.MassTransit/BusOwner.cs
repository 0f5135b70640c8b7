using BatchKit.Diagnostics;
using BatchKit.Transports;
using MassTransit;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.MassTransit;

/// <summary>Finds or creates a buffer's bus. Starts the buffer's own bus without waiting for the broker, and stops it after the buffer has drained.</summary>
internal sealed class BusOwner : IAsyncDisposable
{
    private static readonly TimeSpan StartPause = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan StopLimit = TimeSpan.FromSeconds(10);

    private readonly IBusControl? _bus;
    private readonly BusLink? _link;
    private readonly TimeProvider _timeProvider;
    private readonly GuardedLogger _logger;
    private readonly CancellationTokenSource _stopping = new();
    private readonly Lock _gate = new();

    // Guarded by the gate.
    private Task? _running;
    private Task? _stopped;

    public BusOwner(IServiceProvider services, string name, MassTransitOptions options, TimeProvider timeProvider, ILoggerFactory? loggers)
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
            Connection = new BusConnection(options.Bus(services), options, age) { Metrics = metrics };
            return;
        }

        _link = options.RabbitMq is { } broker ? new BusLink(broker, Target, age, timeProvider, _logger) : null;
        _bus = Create(options, name.Length == 0 ? "BatchKit" : $"BatchKit {name}", _link, guarded);
        Connection = _link is null
            ? new InMemoryConnection(_bus, options, age) { Metrics = metrics }
            : new BusConnection(_bus, options, age) { Metrics = metrics, Link = _link };
    }

    public BusConnection Connection { get; }

    /// <summary>What the bus connects to, in human-readable form.</summary>
    public string Target { get; }

    /// <summary>What the loggers have thrown, in a sentence; null when they have thrown nothing.</summary>
    public string? LoggerFault => _logger.Faults.Description;

    /// <summary>Starts to connect; the broker may be down. Does nothing for the application's bus.</summary>
    public void Start()
    {
        lock (_gate)
        {
            if (_bus is not null && _stopped is null)
                _running ??= CallerContext.RunWithout(() => RunAsync(_bus));
        }
    }

    /// <summary>Waits until the buffer's own bus over RabbitMQ is connected, if <see cref="MassTransitOptions.FailFast"/> is set.</summary>
    /// <exception cref="IOException">The bus did not connect within the time limit.</exception>
    public async Task WaitUntilConnectedAsync(CancellationToken cancellationToken)
    {
        if (!Connection.Options.FailFast || Connection.Options.RabbitMq is not { } rabbit || _running is not { } running)
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
            return _stopped ??= _running is null ? Task.CompletedTask : StopAsync(_bus!, _running);
    }

    public async ValueTask DisposeAsync()
    {
        await StopAsync().ConfigureAwait(false);
        (Connection as IDisposable)?.Dispose();
        _link?.Dispose();
        _stopping.Dispose();
    }

    private static IBusControl Create(MassTransitOptions options, string name, BusLink? link, GuardedLoggerFactory loggers)
    {
        // The bus takes its logger from the async flow that creates it.
        var outer = LogContext.Current;
        LogContext.ConfigureCurrentLogContext(loggers);
        try
        {
            return link is not null
                ? RabbitMqBus.Create(options.RabbitMq!, name, link)
                : Bus.Factory.CreateUsingInMemory(static _ => { });
        }
        finally
        {
            LogContext.Current = outer;
        }
    }

    private async Task RunAsync(IBusControl bus)
    {
        while (!_stopping.IsCancellationRequested)
        {
            try
            {
                // Completes when the bus is connected. MassTransit retries most errors without limit, but gives up after some.
                await bus.StartAsync(_stopping.Token).ConfigureAwait(false);
                Log.BusStarted(_logger, Target);
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

    private async Task StopAsync(IBusControl bus, Task running)
    {
        await _stopping.CancelAsync().ConfigureAwait(false);
        _link?.Stop();
        using var limit = new CancellationTokenSource(StopLimit, _timeProvider);
        try
        {
            await running.WaitAsync(limit.Token).ConfigureAwait(false);
            await bus.StopAsync(limit.Token).ConfigureAwait(false);
        }
        catch (Exception exception)
        {
            Log.BusStopFailed(_logger, exception, Target);
        }
    }
}

/// <summary>Starts a buffer's own bus before its users, and stops it after all hosted services, because the buffer drains over it.</summary>
internal sealed class BusHostedService(BusOwner owner, MassTransitReceiver? lastReceiver) : IHostedLifecycleService
{
    public async Task StartingAsync(CancellationToken cancellationToken)
    {
        owner.Start();
        await owner.WaitUntilConnectedAsync(cancellationToken).ConfigureAwait(false);
        // Before any hosted service starts, because the handles that hosted services create contain the node's number.
        if (lastReceiver is not null)
            await lastReceiver.LeaseAsync(cancellationToken).ConfigureAwait(false);
    }

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
        owner.Connection.IsLostAtStop ? Task.CompletedTask : receiver.StopAsync(cancellationToken);
}

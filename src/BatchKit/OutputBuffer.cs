using System.Diagnostics.Metrics;
using System.Runtime.CompilerServices;
using BatchKit.Buffering;
using BatchKit.Diagnostics;
using BatchKit.Dispatch;
using BatchKit.Transports;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit;

/// <summary>The output buffer: holds messages while scopes are open, and sends them on as batches over its routes.</summary>
/// <remarks>
/// <c>AddBatchKit</c> makes one and a host stops it. Without a host make one yourself and dispose it: that drains it. It starts a timer for its watch, which
/// ends with it, and no thread or task that outlives it. The transports are yours to dispose, after the buffer.
/// </remarks>
public sealed class OutputBuffer : IOutputBuffer, IAsyncDisposable
{
    // At this share of the limit the buffer is degraded: who writes faster than it sends should hear of it before writes fail.
    private const double DegradedShare = 0.8;

    private readonly OutputBufferOptions _options;
    private readonly TimeProvider _timeProvider;
    private readonly ILogger _logger;
    private readonly BatchKitMetrics _metrics;
    private readonly ByteBudget _budget;
    private readonly Dispatcher _dispatcher;
    private readonly LingerQueue _linger;
    private readonly HandleTable _handles;
    private readonly AmbientScopes _ambientScopes = new();
    private readonly OutputWriter _writer;
    private readonly BufferWatch _watch;
    private readonly TaskCompletionSource _stopped = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private int _stopBegun;

    /// <summary>Makes a buffer with one way out.</summary>
    /// <param name="transport">The next hop.</param>
    /// <param name="options">The settings; the defaults when null. Read now: later changes have no effect.</param>
    /// <param name="name">What metrics, logs and health checks call it; empty by default.</param>
    /// <param name="timeProvider">Where all time comes from; the system's by default.</param>
    /// <param name="logger">Gets warnings about what failed; none by default.</param>
    /// <param name="meterFactory">Makes the meter <c>BatchKit</c>; a plain one by default.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">An option is outside its range; the message names it.</exception>
    public OutputBuffer(
        IBatchTransport transport, OutputBufferOptions? options = null, string name = "", TimeProvider? timeProvider = null,
        ILogger<OutputBuffer>? logger = null, IMeterFactory? meterFactory = null)
        : this([new OutputRoute("default", transport)], router: null, options, name, timeProvider, logger, meterFactory)
    {
    }

    /// <summary>Makes a buffer with several ways out.</summary>
    /// <param name="routes">From 1 to 31, with different names.</param>
    /// <param name="router">Chooses a handle's routes; with none, everything takes the first route.</param>
    /// <param name="options">The settings; the defaults when null. Read now: later changes have no effect.</param>
    /// <param name="name">What metrics, logs and health checks call it; empty by default.</param>
    /// <param name="timeProvider">Where all time comes from; the system's by default.</param>
    /// <param name="logger">Gets warnings about what failed; none by default.</param>
    /// <param name="meterFactory">Makes the meter <c>BatchKit</c>; a plain one by default.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">An option is outside its range; the message names it.</exception>
    /// <exception cref="ArgumentException">There is no route, too many, or two of one name.</exception>
    public OutputBuffer(
        IReadOnlyList<OutputRoute> routes, IOutputRouter? router = null, OutputBufferOptions? options = null, string name = "",
        TimeProvider? timeProvider = null, ILogger<OutputBuffer>? logger = null, IMeterFactory? meterFactory = null)
        : this(routes, router, options ?? new OutputBufferOptions(), name, timeProvider ?? TimeProvider.System, logger, meterFactory,
            ThreadPoolDispatchScheduler.Shared, Random.Shared.NextInt64(1, long.MaxValue))
    {
    }

    internal OutputBuffer(
        IReadOnlyList<OutputRoute> routes, IOutputRouter? router, OutputBufferOptions options, string name, TimeProvider timeProvider,
        ILogger<OutputBuffer>? logger, IMeterFactory? meterFactory, IDispatchScheduler scheduler, long epoch = 1)
    {
        ArgumentNullException.ThrowIfNull(routes);
        ArgumentOutOfRangeException.ThrowIfZero(routes.Count, nameof(routes));
        ArgumentOutOfRangeException.ThrowIfGreaterThan(routes.Count, Dispatcher.MaxRoutes, nameof(routes));
        OutputBufferOptionsValidator.ThrowIfInvalid(options, name);
        Name = name;
        _options = options;
        _timeProvider = timeProvider;
        _logger = logger ?? NullLogger<OutputBuffer>.Instance;
        _metrics = new BatchKitMetrics(name, meterFactory);
        _budget = new ByteBudget(options.MaxBufferedBytes, scheduler);
        _linger = new LingerQueue(timeProvider, options.Linger);
        var clock = new CoarseClock(timeProvider);
        var sendContext = new SendContext();
        _dispatcher = new Dispatcher(
            routes, router, new DispatchSettings(options, timeProvider, clock, scheduler, sendContext, _metrics, _logger, (int)epoch), epoch);
        var settings = new BufferingSettings(
            options, clock, _budget, new PendingBatchPool(_budget), _linger, sendContext, _metrics, _logger);
        _handles = new HandleTable(_dispatcher, settings);
        var maxMessageBytes = Math.Min(options.MaxMessageBytes, routes.Min(static route => route.Transport.MaxMessageBytes));
        _writer = new OutputWriter(_handles, _ambientScopes, _dispatcher, settings, maxMessageBytes, name);
        _watch = new BufferWatch(_handles, clock, options, timeProvider);
        _metrics.Observe(GetStatistics, _dispatcher.CountUnscopedBatches);
    }

    /// <summary>What metrics, logs and health checks call the buffer.</summary>
    public string Name { get; }

    /// <inheritdoc/>
    public BufferingScope BeginBufferingScope(
        OutputHandle handle, [CallerFilePath] string openerFile = "", [CallerLineNumber] int openerLine = 0)
    {
        while (_handles.Find(handle) is { } buffer)
        {
            if (buffer.OpenScope(openerFile, openerLine) is { } scope)
                return scope;
        }

        throw new ObjectDisposedException(nameof(OutputBuffer));
    }

    /// <inheritdoc/>
    public BufferingScope BeginBufferingScope([CallerFilePath] string openerFile = "", [CallerLineNumber] int openerLine = 0)
    {
        ObjectDisposedException.ThrowIf(_handles.IsStopped, this);
        return _ambientScopes.Open(openerFile, openerLine);
    }

    /// <inheritdoc/>
    public bool EndBufferingScope(OutputHandle handle) => _handles.Peek(handle)?.CloseYoungestScope() ?? false;

    /// <inheritdoc/>
    public bool TryWrite(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header = null) =>
        _writer.TryWrite(handle, payload, header);

    /// <inheritdoc/>
    public void Write(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header = null) =>
        _writer.Write(handle, payload, header);

    /// <inheritdoc/>
    public ValueTask WriteAsync(
        OutputHandle handle, ReadOnlyMemory<byte> payload, MessageHeader? header = null, CancellationToken cancellationToken = default) =>
        _writer.WriteAsync(handle, payload, header, cancellationToken);

    /// <inheritdoc/>
    public ValueTask FlushAsync(OutputHandle handle, CancellationToken cancellationToken = default)
    {
        return _handles.Peek(handle)?.FlushAsync(FlushReason.Requested, cancellationToken) ?? default;
    }

    /// <inheritdoc/>
    public ValueTask FlushAsync(CancellationToken cancellationToken = default)
    {
        return _handles.FlushAllAsync(FlushReason.Requested, cancellationToken);
    }

    /// <inheritdoc/>
    public OutputStatistics GetStatistics()
    {
        var handles = _handles.GetStatistics();
        var statistics = _dispatcher.GetStatistics();
        return statistics with
        {
            AcceptedMessages = handles.AcceptedMessages,
            AcceptedBytes = handles.AcceptedBytes,
            PendingMessages = statistics.PendingMessages + handles.HeldMessages,
            BufferedBytes = _budget.Reserved,
            LiveHandles = _handles.Live,
            OpenScopes = handles.OpenScopes,
        };
    }

    /// <summary>How the buffer is. It is unhealthy while a route cannot send or after it has stopped, and degraded when it is nearly full.</summary>
    public OutputHealth GetHealth()
    {
        if (_handles.IsStopped)
            return new OutputHealth(HealthStatus.Unhealthy, ["The buffer has stopped."]);
        var reasons = _dispatcher.DescribeFailures();
        var status = reasons.IsEmpty ? HealthStatus.Healthy : HealthStatus.Unhealthy;
        if (_budget.Reserved < _budget.Capacity * DegradedShare)
            return new OutputHealth(status, reasons);
        var nearlyFull = $"{_budget.Reserved} of {nameof(OutputBufferOptions.MaxBufferedBytes)} ({_budget.Capacity}) bytes wait to be sent.";
        return new OutputHealth(reasons.IsEmpty ? HealthStatus.Degraded : status, reasons.Add(nearlyFull));
    }

    /// <summary>
    /// Takes no more writes, and sends what is pending, that of open scopes too, within <see cref="OutputBufferOptions.DrainTimeout"/> or until the token is
    /// cancelled. What is left then is dropped, counted and logged.
    /// </summary>
    /// <param name="cancellationToken">Ends the drain early.</param>
    public Task StopAsync(CancellationToken cancellationToken)
    {
        if (Interlocked.Exchange(ref _stopBegun, 1) == 0)
            _ = StopOnceAsync(cancellationToken);
        return _stopped.Task;
    }

    /// <summary>Stops as <see cref="StopAsync"/> does, and ends all that the buffer started.</summary>
    public async ValueTask DisposeAsync()
    {
        await StopAsync(CancellationToken.None).ConfigureAwait(false);
        await _watch.DisposeAsync().ConfigureAwait(false);
        await _linger.DisposeAsync().ConfigureAwait(false);
        await _dispatcher.DisposeAsync().ConfigureAwait(false);
        _metrics.Dispose();
    }

    private async Task StopOnceAsync(CancellationToken cancellationToken)
    {
        try
        {
            await DrainAsync(cancellationToken).ConfigureAwait(false);
            _stopped.SetResult();
        }
        catch (Exception failure)
        {
            _stopped.SetException(failure);
        }
    }

    private async Task DrainAsync(CancellationToken cancellationToken)
    {
        _handles.Stop();
        _budget.FailWaiters(new ObjectDisposedException(nameof(OutputBuffer)));
        try
        {
            await _dispatcher.WhenIdleAsync().WaitAsync(_options.DrainTimeout, _timeProvider, cancellationToken).ConfigureAwait(false);
            _logger.Drained(Name);
        }
        catch (Exception limit) when (limit is TimeoutException or OperationCanceledException)
        {
            _logger.DrainTimedOut(Name, GetStatistics().PendingMessages, _options.DrainTimeout);
            _dispatcher.Abort();
            await _dispatcher.WhenIdleAsync().ConfigureAwait(false);
        }
    }
}

using System.Diagnostics.Metrics;
using System.Runtime.CompilerServices;
using BatchKit.Batches;
using BatchKit.Buffering;
using BatchKit.Diagnostics;
using BatchKit.Dispatch;
using BatchKit.Transports;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging;

namespace BatchKit;

/// <summary>The output buffer: holds messages while scopes are open, and sends them on as batches over its routes.</summary>
/// <remarks>
/// <c>AddBatchKit</c> registers one, and the host stops it. Without a host, create one yourself and dispose it, which drains it. Its timers
/// end with it, and no thread or task outlives it. The buffer does not dispose its transports: dispose them after the buffer.
/// </remarks>
public sealed class OutputBuffer : IOutputBuffer, IAsyncDisposable, IDisposable
{
    private static readonly TimeSpan MaxHoldLimit = TimeSpan.FromDays(1);

    private readonly BufferSettings _settings;
    private readonly Dispatcher _dispatcher;
    private readonly HoldQueue _holds;
    private readonly HandleTable _handles;
    private readonly AmbientScopes _ambientScopes;
    private readonly OutputWriter _writer;
    private readonly BufferWatch _watch;
    private readonly BufferCounters _counters;
    private readonly long _epoch;
    private readonly TaskCompletionSource _stopped = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private int _stopBegun;

    /// <summary>Creates a buffer with one route, <c>default</c>.</summary>
    /// <param name="transport">The next hop.</param>
    /// <param name="options">The settings; the defaults when null. They are read once: later changes have no effect.</param>
    /// <param name="name">The buffer's name in metrics, logs and health checks; empty by default.</param>
    /// <param name="timeProvider">The clock; the system's by default.</param>
    /// <param name="logger">Gets warnings about what failed; none by default.</param>
    /// <param name="meterFactory">Creates the meter <c>BatchKit</c>; by default, the buffer creates it itself.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">An option is outside its range, or above what the transport takes; the message names it.</exception>
    public OutputBuffer(
        IBatchTransport transport, OutputBufferOptions? options = null, string name = "", TimeProvider? timeProvider = null,
        ILogger<OutputBuffer>? logger = null, IMeterFactory? meterFactory = null)
        : this([new OutputRoute("default", transport)], router: null, options, name, timeProvider, logger, meterFactory)
    {
    }

    /// <summary>Creates a buffer with several routes.</summary>
    /// <param name="routes">At least one, with different names.</param>
    /// <param name="router">Chooses a handle's routes; with none, everything takes the first route.</param>
    /// <param name="options">The settings; the defaults when null. They are read once: later changes have no effect.</param>
    /// <param name="name">The buffer's name in metrics, logs and health checks; empty by default.</param>
    /// <param name="timeProvider">The clock; the system's by default.</param>
    /// <param name="logger">Gets warnings about what failed; none by default.</param>
    /// <param name="meterFactory">Creates the meter <c>BatchKit</c>; by default, the buffer creates it itself.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">An option is outside its range, or above what a route takes; the message names it.</exception>
    /// <exception cref="ArgumentException">There is no route, one is null, or two have the same name.</exception>
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
        OptionsRules.ThrowIfInvalid(new OutputBufferOptionsValidator(), options, name);
        foreach (var route in routes)
            (route ?? throw new ArgumentException("A route is null. Leave it out.", nameof(routes))).ThrowIfTooNarrow(options, name);
        Name = name;
        _epoch = epoch;
        var guarded = GuardedLogger.Of(logger);
        _settings = new BufferSettings(options, name, new BufferClock(timeProvider), scheduler, new BatchKitMetrics(name, meterFactory, guarded.Faults), guarded, router is null ? 1 : routes.Count);
        _holds = new HoldQueue(_settings.Clock);
        _dispatcher = new Dispatcher(routes, router, _settings, _holds, epoch);
        _handles = new HandleTable(_dispatcher, _settings, _holds);
        _ambientScopes = new AmbientScopes(_settings, _holds);
        _writer = new OutputWriter(_handles, _ambientScopes, _dispatcher, _settings, routes.MinBy(static route => route.Transport.MaxMessageBytes)!.Transport);
        _watch = new BufferWatch(_handles, _settings);
        _counters = new BufferCounters(GetStatistics, _dispatcher.CountUnscopedBatches, timeProvider);
        _settings.Metrics.Observe(_counters);
    }

    /// <summary>The buffer's name in metrics, logs and health checks.</summary>
    public string Name { get; }

    /// <inheritdoc/>
    public BufferingScope BeginBufferingScope(
        OutputHandle handle, TimeSpan? maxHold = null, [CallerLineNumber] int openerLine = 0, [CallerFilePath] string openerFile = "") =>
        Open(handle, maxHold is { } limit ? new ScopeOpening(openerFile, openerLine, Checked(limit), isAmbient: false) : new ScopeOpening(openerFile, openerLine));

    /// <inheritdoc/>
    public BufferingScope BeginBufferingScope(TimeSpan? maxHold = null, [CallerLineNumber] int openerLine = 0, [CallerFilePath] string openerFile = "") =>
        OpenAmbient(openerFile, openerLine, maxHold is { } limit ? Checked(limit) : default);

    /// <inheritdoc/>
    public MessageWriter BeginWriting(OutputHandle handle, [CallerLineNumber] int openerLine = 0, [CallerFilePath] string openerFile = "") =>
        _writer.Begin(this, handle, new ScopeOpening(openerFile, openerLine));

    /// <inheritdoc/>
    public bool EndBufferingScope(OutputHandle handle) => _handles.TryGet(handle)?.CloseYoungestScope() ?? false;

    /// <inheritdoc/>
    public bool TryWrite(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header = null)
    {
        var copied = new CopiedPayload(payload);
        return _writer.TryWrite(handle, ref copied, header);
    }

    /// <inheritdoc/>
    public bool TryWrite<TState>(OutputHandle handle, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null)
        where TState : allows ref struct
    {
        var encoded = EncodedPayload<TState>.Create(maxBytes, state, encode);
        return _writer.TryWrite(handle, ref encoded, header);
    }

    /// <summary>Does what <c>TryWrite</c> does, for a caller that keeps a message that is refused and tries again: it is not counted as dropped.</summary>
    internal bool TryForward<TPayload>(OutputHandle handle, scoped ref TPayload payload, MessageHeader? header)
        where TPayload : struct, IMessagePayload, allows ref struct => _writer.TryWrite(handle, ref payload, header, isRetried: true);

    /// <inheritdoc/>
    public void Write(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header = null)
    {
        var copied = new CopiedPayload(payload);
        _writer.Write(handle, ref copied, header);
    }

    /// <inheritdoc/>
    public void Write<TState>(OutputHandle handle, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null)
        where TState : allows ref struct
    {
        var encoded = EncodedPayload<TState>.Create(maxBytes, state, encode);
        _writer.Write(handle, ref encoded, header);
    }

    /// <inheritdoc/>
    public ValueTask WriteAsync(
        OutputHandle handle, ReadOnlyMemory<byte> payload, MessageHeader? header = null, CancellationToken cancellationToken = default) =>
        _writer.WriteAsync(handle, payload, header, cancellationToken);

    /// <inheritdoc/>
    public void WriteLatest(OutputHandle handle, long key, ReadOnlySpan<byte> payload, MessageHeader? header = null)
    {
        var latest = new LatestPayload<CopiedPayload>(key, new CopiedPayload(payload));
        _writer.Write(handle, ref latest, header);
    }

    /// <inheritdoc/>
    public void WriteLatest<TState>(OutputHandle handle, long key, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null)
        where TState : allows ref struct
    {
        var latest = new LatestPayload<EncodedPayload<TState>>(key, EncodedPayload<TState>.Create(maxBytes, state, encode));
        _writer.Write(handle, ref latest, header);
    }

    /// <inheritdoc/>
    public bool TryWriteLatest(OutputHandle handle, long key, ReadOnlySpan<byte> payload, MessageHeader? header = null)
    {
        var latest = new LatestPayload<CopiedPayload>(key, new CopiedPayload(payload));
        return _writer.TryWrite(handle, ref latest, header);
    }

    /// <inheritdoc/>
    public bool TryWriteLatest<TState>(OutputHandle handle, long key, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null)
        where TState : allows ref struct
    {
        var latest = new LatestPayload<EncodedPayload<TState>>(key, EncodedPayload<TState>.Create(maxBytes, state, encode));
        return _writer.TryWrite(handle, ref latest, header);
    }

    /// <inheritdoc/>
    public ValueTask FlushAsync(OutputHandle handle, CancellationToken cancellationToken = default) =>
        _handles.TryGet(handle)?.FlushAsync(ReportedLosses.Unreported, cancellationToken) ?? default;

    /// <summary>Seals and queues what is pending for the handles of this async flow's ambient scope, in the order in which it was written. The scope stays open. Without one it does nothing. It waits for nothing.</summary>
    public void FlushAmbientScope()
    {
        EncoderGuard.ThrowIfEncoding();
        _ambientScopes.Current?.Flush();
    }

    /// <inheritdoc/>
    public ValueTask FlushAsync(CancellationToken cancellationToken = default)
    {
        EncoderGuard.ThrowIfEncoding();
        return _handles.FlushAllAsync(cancellationToken);
    }

    /// <inheritdoc/>
    public ValueTask WhenSettledAsync(OutputHandle handle, CancellationToken cancellationToken = default) =>
        _handles.TryGet(handle)?.FlushAsync(ReportedLosses.OfWait, cancellationToken, seals: false) ?? default;

    /// <inheritdoc/>
    public OutputStatistics GetStatistics()
    {
        var handles = _handles.GetStatistics();
        var statistics = _dispatcher.GetStatistics();
        return statistics with
        {
            AcceptedMessages = handles.AcceptedMessages,
            AcceptedBytes = handles.AcceptedBytes,
            SupersededMessages = handles.SupersededMessages,
            PendingMessages = statistics.PendingMessages + handles.HeldMessages,
            BufferedBytes = _settings.Budget.Reserved,
            LiveHandles = _handles.Live,
            OpenScopes = handles.OpenScopes,
        };
    }

    /// <summary>How many handles were looked at so far by what looks at all of them.</summary>
    internal long HandleLooks => _settings.HandleLooks;

    /// <summary>Reads how many bytes a handle has pending: accepted and not yet settled, in open scopes too. Payloads, headers and 4 bytes a message count, and what its open batch reserved in advance.</summary>
    /// <remarks>It looks at that handle alone, and is zero for a handle that is not in use. Call it from any thread; while messages move, it may be off by a few.</remarks>
    /// <param name="handle">The destination.</param>
    public long GetPendingBytes(OutputHandle handle) => _handles.TryGet(handle)?.Budget.Pending ?? 0;

    /// <summary>Reads how many bytes are queued or under way on a route. Output for several routes counts on each that has not settled it; what open scopes hold does not count yet.</summary>
    /// <remarks>It walks the route's queues, so call it for a page or a test, not on a hot path. Call it from any thread.</remarks>
    /// <param name="routeName">The name of the <see cref="OutputRoute"/>; <c>default</c> for a buffer of one transport.</param>
    /// <exception cref="ArgumentException">The buffer has no such route.</exception>
    public long GetPendingBytes(string routeName)
    {
        ArgumentNullException.ThrowIfNull(routeName);
        EncoderGuard.ThrowIfEncoding();
        return _dispatcher.CountPendingBytes(routeName);
    }

    /// <summary>True when this buffer itself numbered a batch and gave it to its local route (<see cref="LocalFirstRouter.LocalRoute"/>) as well, so that a receiver of this node drops it.</summary>
    /// <remarks>
    /// False for a batch of any other buffer, process or earlier start, whatever its node number: no local route has delivered that one here. Call it from any
    /// thread. It asks the router, and never throws: a router that throws counts as one that did not choose the local route.
    /// </remarks>
    /// <param name="producer">Who numbered the batch.</param>
    /// <param name="handle">The batch's destination.</param>
    public bool IsDeliveredLocally(ProducerId producer, OutputHandle handle)
    {
        if (producer.Epoch != _epoch || producer.Node != _settings.Node)
            return false;
        try
        {
            return _dispatcher.TakesLocalRoute(handle);
        }
        catch (Exception fault)
        {
            _settings.Logger.Faults.Add(fault);
            return false;
        }
    }

    /// <summary>Gets the buffer's health: unhealthy while a route cannot send or after the buffer has stopped; degraded when some receivers of a route take nothing, when its next hop refuses everything, when 70 % of what a route can have of <see cref="OutputBufferOptions.MaxBufferedBytes"/> is used, or after a logger, listener, router or <see cref="IBatchTransport.GetDestination"/> has thrown.</summary>
    public OutputHealth GetHealth() =>
        _handles.IsStopped ? new OutputHealth(HealthStatus.Unhealthy, ["The buffer has stopped."]) : OutputHealth.Of(_settings, _dispatcher.DescribeFailures(), _dispatcher.DescribeNotTaken());

    /// <summary>
    /// Stops accepting writes, and sends what is pending, in open scopes too, within <see cref="OutputBufferOptions.DrainTimeout"/> or until the token is
    /// cancelled. What is still pending then is dropped, counted and logged. Later calls return the same task. What a transport that blocks its thread has stays pending: the stop ends without it 5 s later.
    /// </summary>
    /// <param name="cancellationToken">Ends the drain early.</param>
    public Task StopAsync(CancellationToken cancellationToken)
    {
        EncoderGuard.ThrowIfEncoding();
        if (Interlocked.Exchange(ref _stopBegun, 1) == 0)
            _ = StopOnceAsync(cancellationToken);
        return _stopped.Task;
    }

    /// <summary>Does what <see cref="DisposeAsync"/> does, and blocks its caller meanwhile, at most for <see cref="OutputBufferOptions.DrainTimeout"/> and a few seconds. For containers that are disposed synchronously; prefer <see cref="DisposeAsync"/>.</summary>
    public void Dispose() => IBlockingDisposable.Dispose(this);

    /// <summary>Stops as <see cref="StopAsync"/> does, and ends the buffer's timers and instruments.</summary>
    public async ValueTask DisposeAsync()
    {
        await StopAsync(CancellationToken.None).ConfigureAwait(false);
        await _watch.DisposeAsync().ConfigureAwait(false);
        await _holds.DisposeAsync().ConfigureAwait(false);
        await _dispatcher.DisposeAsync().ConfigureAwait(false);
        if (_settings.Drops is { } drops)
            await drops.WhenIdleAsync(_settings.DrainTimeout, _settings.Clock.TimeProvider).ConfigureAwait(false);
        Array.ForEach(_handles.Held, static held => held.Clear());
        _settings.Batches.Clear();
        _settings.Metrics.Dispose();
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
        var drained = _handles.DrainAsync();
        _dispatcher.EndLinger();
        _settings.Budget.FailWaiters(HandleTable.Stopped());
        try
        {
            await drained.WaitAsync(_settings.DrainTimeout, _settings.Clock.TimeProvider, cancellationToken).ConfigureAwait(false);
            _settings.Logger.Drained(Name);
        }
        catch (Exception limit) when (limit is TimeoutException or OperationCanceledException)
        {
            _settings.Logger.DrainEnded(Name, _dispatcher.GetStatistics().PendingMessages, limit is TimeoutException ? _settings.DrainTimeout : null);
            if (!await _dispatcher.AbortAsync().ConfigureAwait(false))
                _settings.Logger.TransportBlocks(Name, _dispatcher.GetStatistics().PendingMessages, Dispatcher.AbortTimeout);
        }
    }

    private BufferingScope Open(OutputHandle handle, in ScopeOpening opening)
    {
        while (_handles.GetOrAdd(handle) is { } buffer)
        {
            var starts = default(SenderStarts);
            var scope = buffer.OpenScope(opening, ref starts);
            starts.StartAll();
            if (scope is not null)
                return scope.Value;
        }

        throw HandleTable.Stopped();
    }

    private BufferingScope OpenAmbient(string openerFile, int openerLine, TimeSpan maxHold)
    {
        if (_handles.IsStopped)
            throw HandleTable.Stopped();
        return _ambientScopes.Open(openerFile, openerLine, maxHold);
    }

    private static TimeSpan Checked(TimeSpan maxHold)
    {
        if (maxHold <= TimeSpan.Zero || maxHold > MaxHoldLimit)
            throw new ArgumentOutOfRangeException(nameof(maxHold), maxHold, $"A scope's limit must be above zero and at most {MaxHoldLimit}. Leave it out for a scope without a limit.");
        return maxHold;
    }
}

using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using NATS.Client.Core;
using NATS.Client.JetStream;
using NATS.Client.JetStream.Models;

namespace BatchKit.Nats;

/// <summary>Sends batches over NATS: one message for each send and destination.</summary>
/// <remarks>
/// With <see cref="NatsDelivery.AtLeastOnce"/> a send completes when the stream has stored its frames; what fails is sent again, and receivers drop repeats. With <see cref="NatsDelivery.AtMostOnce"/> it
/// completes when the client has the frames, and the first one for a node when the server has it; while the server is away, or refuses them, they are lost, count as refused, and who awaits them learns it. The server accepts a frame for a node that never ran, and drops it. Thread-safe.
/// </remarks>
public sealed class NatsTransport : IBatchTransport, IAsyncDisposable, IDisposable
{
    // JetStream's error number for a message that is larger than the stream takes.
    private const int MessageTooLarge = 10054;

    // While the server is away each of many frames would otherwise be an attempt to connect.
    private static readonly TimeSpan OpenPause = TimeSpan.FromMilliseconds(200);

    // Between attempts of a start that has failed.
    private static readonly TimeSpan FirstDelay = TimeSpan.FromMilliseconds(250);
    private static readonly TimeSpan LongestDelay = TimeSpan.FromSeconds(2);

    // Dispatch sends again, with its own pauses.
    private static readonly NatsJSPubOpts Once = new() { RetryAttempts = 1 };

    private readonly NatsLink _link;
    private readonly bool _ownsLink;
    private readonly NatsOptions _options;
    private readonly TimeProvider _timeProvider;
    private readonly NatsTopology _topology;
    private readonly ConnectionReporter _reporter;
    private readonly CorePublisher _core;
    private readonly FrameTransport _frames;
    private readonly CancellationTokenSource _ending = new();

    // Guards the tasks and the time.
    private readonly Lock _lock = new();
    private Task? _opening;
    private long _openedAt;
    private Task? _declaring;
    private Task _starting = Task.CompletedTask;
    private Task _looking = Task.CompletedTask;
    private volatile string? _fault;

    /// <summary>Creates a transport; it connects at its first send.</summary>
    /// <param name="options">The settings; the defaults when null.</param>
    /// <param name="connection">The application's connection, which is never closed; it is used when <see cref="NatsOptions.Url"/> is null.</param>
    /// <param name="timeProvider">The clock; the system's when null.</param>
    /// <param name="logger">The logger; null logs nothing.</param>
    /// <param name="signer">Signs the frames; null for none.</param>
    /// <param name="metrics">The instruments of its connection; null for none.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public NatsTransport(
        NatsOptions? options = null, INatsConnection? connection = null, TimeProvider? timeProvider = null,
        ILogger<NatsTransport>? logger = null, FrameSigner? signer = null, ConnectionMetrics? metrics = null)
        : this(options = Check(options), new NatsLink(options, connection, logger), timeProvider, signer, metrics) => _ownsLink = true;

    internal NatsTransport(NatsOptions options, NatsLink link, TimeProvider? timeProvider, FrameSigner? signer, ConnectionMetrics? metrics)
    {
        _timeProvider = timeProvider ?? TimeProvider.System;
        (_options, _link, _topology) = (options, link, new NatsTopology(options));
        _core = new CorePublisher(link, _timeProvider);
        _reporter = new ConnectionReporter(options.ConnectionChanged, "sender", link.Target, metrics, "nats");
        _frames = new FrameTransport(options.Delivery == NatsDelivery.AtLeastOnce ? StoreAsync : PublishAsync, new FrameTransportOptions
        {
            BusName = link.Target,
            MaxFrameBytes = options.MaxFrameBytes,
            DestinationNode = options.DestinationNode,
            Signer = signer,
            PublishesWithoutBlocking = true,
        });
    }

    /// <inheritdoc/>
    public bool SendsWithoutBlocking => true;

    /// <inheritdoc/>
    public int MaxMessageBytes => _frames.MaxMessageBytes;

    /// <inheritdoc/>
    public int MaxBatchBytes => _frames.MaxBatchBytes;

    /// <inheritdoc/>
    public FrameDestination GetDestination(OutputHandle handle) => _frames.GetDestination(handle);

    /// <inheritdoc/>
    public string LimitingSetting => $"{nameof(NatsOptions)}.{nameof(NatsOptions.MaxFrameBytes)}";

    internal string? Fault => _link.Fault ?? _fault ?? _core.Fault;

    internal string? ObserverFault => _link.LoggerFault ?? _reporter.CallbackFault;

    /// <summary>Publishes the batches; see <see cref="NatsOptions.Delivery"/> for when it completes.</summary>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="ObjectDisposedException">The transport is disposed.</exception>
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => _frames.SendAsync(batches, cancellationToken);

    /// <summary>Makes later sends fail.</summary>
    public void Dispose()
    {
        _ending.Cancel();
        _frames.Dispose();
    }

    /// <summary>Makes later sends fail, and closes its connection; the application's stays open.</summary>
    public ValueTask DisposeAsync()
    {
        Dispose();
        return _ownsLink ? _link.DisposeAsync() : default;
    }

    internal static NatsOptions Check(NatsOptions? options)
    {
        options ??= new NatsOptions();
        OptionsRules.ThrowIfInvalid(new NatsOptionsValidator(), options);
        return options.Copy();
    }

    /// <summary>Connects, and creates the stream. The host calls it when it starts; without one, the first send does. When the server is away it goes on trying, so that health is good when the server is there.</summary>
    /// <exception cref="InvalidOperationException">The server takes no frame of the largest size.</exception>
    internal async Task StartAsync(CancellationToken cancellationToken)
    {
        if (await CallerContext.RunWithout(() => TryStartAsync(cancellationToken)).ConfigureAwait(false))
            _link.ThrowIfTooSmall(_options.MaxFrameBytes);
        else
            KeepStarting();
    }

    private async Task<bool> TryStartAsync(CancellationToken cancellationToken)
    {
        try
        {
            await ReadyAsync(cancellationToken).ConfigureAwait(false);
            _fault = null;
            return true;
        }
        catch (Exception exception) when (exception is IOException or NatsException or TimeoutException)
        {
            _fault = NatsLink.Describe(exception);
            return false;
        }
    }

    // Health would stay bad until the next send, and a server that waits for good health sends nothing.
    private void KeepStarting()
    {
        lock (_lock)
        {
            if (_starting.IsCompleted)
                _starting = CallerContext.RunWithout(() => KeepStartingAsync(_ending.Token));
        }
    }

    private async Task KeepStartingAsync(CancellationToken ending)
    {
        var schedule = new RetrySchedule(FirstDelay, LongestDelay);
        try
        {
            var failures = 0;
            do
                await Task.Delay(schedule.DelayAfter(++failures, Random.Shared), _timeProvider, ending).ConfigureAwait(false);
            while (!await TryStartAsync(ending).ConfigureAwait(false));
            _link.ThrowIfTooSmall(_options.MaxFrameBytes);
        }
        catch (Exception exception) when (!ending.IsCancellationRequested)
        {
            _fault = NatsLink.Describe(exception);
        }
        catch (Exception)
        {
            // The transport is disposed of, and its connection may be.
        }
    }

    private async Task ReadyAsync(CancellationToken cancellationToken)
    {
        await OpenAsync(cancellationToken).ConfigureAwait(false);
        if (_options.Delivery == NatsDelivery.AtMostOnce)
            return;
        Task declaring;
        lock (_lock)
        {
            if (_declaring is null or { IsFaulted: true } or { IsCanceled: true })
                _declaring = CallerContext.RunWithout(() => _topology.DeclareStreamAsync(_link.JetStream, CancellationToken.None));
            declaring = _declaring;
        }

        await declaring.WaitAsync(cancellationToken).ConfigureAwait(false);
    }

    private Task OpenAsync(CancellationToken cancellationToken)
    {
        _link.Watch(_reporter);
        lock (_lock)
        {
            if (_opening is null || (_opening.IsCompleted && _timeProvider.GetElapsedTime(_openedAt) >= OpenPause))
            {
                _openedAt = _timeProvider.GetTimestamp();
                _opening = CallerContext.RunWithout(() => _link.OpenAsync(CancellationToken.None));
            }

            return _opening.WaitAsync(cancellationToken);
        }
    }

    private async ValueTask StoreAsync(OutgoingFrame frame, CancellationToken cancellationToken)
    {
        try
        {
            if (_declaring is not { IsCompletedSuccessfully: true })
                await ReadyAsync(cancellationToken).ConfigureAwait(false);
            ThrowIfTooLarge(frame);
            var answer = await _link.JetStream.PublishAsync(
                _topology.Subject(frame.Destination), frame.Bytes, NatsRawSerializer<ReadOnlyMemory<byte>>.Default, Once, cancellationToken: cancellationToken).ConfigureAwait(false);
            if (answer.Error is { ErrCode: MessageTooLarge } tooLarge)
                throw new FrameRefusedException($"The stream {_topology.Stream} takes no frame of {frame.Bytes.Length} bytes: {tooLarge.Description}");
            if (answer.Error is { } full && full.Description?.Contains("per subject", StringComparison.OrdinalIgnoreCase) == true)
                throw new FrameNotTakenException($"The stream {_topology.Stream} takes nothing for {frame.Destination} now: {full.Description}");
            if (answer.Error is { } error)
                throw Refused(error, frame);
            _fault = null;
        }
        catch (Exception exception) when (exception is NatsException or TimeoutException)
        {
            // The stream may be gone: the next attempt creates it again.
            lock (_lock)
                _declaring = null;
            _fault = $"{_link.Target} did not store a frame: {NatsLink.Describe(exception)}";
            KeepStarting();
            throw new IOException(_fault, exception);
        }
    }

    private IOException Refused(ApiError error, OutgoingFrame frame)
    {
        _fault = $"The stream {_topology.Stream} did not store the frame: {error.Description}";
        // Such as "maximum bytes exceeded".
        if (error.Description?.Contains("exceeded", StringComparison.OrdinalIgnoreCase) == true)
            KeepLooking(frame.Bytes.Length);
        return new IOException(_fault);
    }

    private void KeepLooking(int bytes)
    {
        lock (_lock)
        {
            if (_looking.IsCompleted)
                _looking = CallerContext.RunWithout(() => WaitForCapacityAsync(bytes, _ending.Token));
        }
    }

    // The frames that the stream refused may have been given up, and then no send tells that it has capacity again.
    private async Task WaitForCapacityAsync(int bytes, CancellationToken ending)
    {
        var schedule = new RetrySchedule(FirstDelay, LongestDelay);
        for (var looks = 1; _fault is { } fault && !ending.IsCancellationRequested; looks++)
        {
            await Task.Delay(schedule.DelayAfter(looks, Random.Shared), _timeProvider, ending).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            try
            {
                // Not a fault that is newer than the look.
                if (await _topology.HasCapacityAsync(_link.JetStream, bytes, ending).ConfigureAwait(false))
                    Interlocked.CompareExchange(ref _fault, null, fault);
            }
            catch (Exception)
            {
                // The server is away and will be back, or the transport is disposed of.
            }
        }
    }

    private async ValueTask PublishAsync(OutgoingFrame frame, CancellationToken cancellationToken)
    {
        // The client connects again by itself only after it was connected once.
        if (_link.Connection.ConnectionState is not (NatsConnectionState.Open or NatsConnectionState.Reconnecting))
            await TryStartAsync(cancellationToken).ConfigureAwait(false);
        if (_link.Connection.ConnectionState != NatsConnectionState.Open)
            throw new FrameRefusedException($"{_link.Target} is not connected, and core NATS keeps nothing.");
        ThrowIfTooLarge(frame);
        await _core.PublishAsync(_topology.Subject(frame.Destination), frame.Bytes, cancellationToken).ConfigureAwait(false);
        _fault = null;
    }

    // Else the server would close the connection, and every frame on it would fail.
    private void ThrowIfTooLarge(OutgoingFrame frame)
    {
        if (_link.MaxPayload is { } most && frame.Bytes.Length > most)
            throw new FrameRefusedException($"{_link.Target} takes messages of at most {most} bytes (its max_payload), and the frame has {frame.Bytes.Length}. Lower {LimitingSetting}.");
    }
}

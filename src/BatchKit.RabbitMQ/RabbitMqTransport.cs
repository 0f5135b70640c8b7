using System.Runtime.InteropServices;
using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>Sends batches over RabbitMQ: one frame per send and destination, each confirmed by the broker.</summary>
/// <remarks>
/// It connects at the first send, and reconnects after a lost connection. All sends share one channel, so concurrent sends keep their order. Thread-safe.
/// Register it with <c>UseRabbitMq</c>, or create it yourself and dispose it after the buffer.
/// </remarks>
public sealed class RabbitMqTransport : IBatchTransport, IBlockingDisposable
{
    /// <summary>The least age of a channel that a rejection ends. A queue that has reached its operator's limit rejects too, and a new channel does not change that.</summary>
    internal static readonly TimeSpan ChannelTrial = TimeSpan.FromSeconds(2);

    // No rate limiter: a send has few frames, and dispatch limits the number of sends.
    private static readonly CreateChannelOptions ChannelOptions = new(publisherConfirmationsEnabled: true, publisherConfirmationTrackingEnabled: true);

    // The answer to most sends. Nothing writes to it.
    private static readonly FrameResult[] OneAcknowledged = [new(FrameOutcome.Acknowledged)];

    private readonly RabbitMqOptions _options;
    private readonly FrameSigner? _signer;
    private readonly TimeProvider _timeProvider;
    private readonly RabbitMqTopology _topology;
    private readonly RabbitMqFrameLimit _limit;
    private readonly RabbitMqConnection _connection;
    private readonly GuardedLogger _logger;
    private readonly UnroutedGroups _unroutedGroups;
    private readonly RabbitMqGroupRouting _groups;

    // Written while connecting, read by sends.
    private bool _hasDeclared;
    private long _exchangeMissingSince;
    private volatile bool _wasExchangeMissing;

    // The channel over which the broker answered the last frames, and rejected none. Over a new one, and after a rejection, a frame waits for those before it; see docs/decisions/0014.
    private volatile OpenChannel? _proven;

    private readonly RejectedFrames _rejected = new();

    /// <summary>Creates a transport; it does not connect yet.</summary>
    /// <param name="options">The settings.</param>
    /// <param name="timeProvider">The clock; the system's when null.</param>
    /// <param name="logger">The logger of its connections; null logs nothing.</param>
    /// <param name="signer">Signs the frames; null for none.</param>
    /// <param name="metrics">The instruments of its connection; null for none.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public RabbitMqTransport(RabbitMqOptions options, TimeProvider? timeProvider = null, ILogger<RabbitMqTransport>? logger = null, FrameSigner? signer = null,
        ConnectionMetrics? metrics = null)
    {
        ArgumentNullException.ThrowIfNull(options);
        OptionsRules.ThrowIfInvalid(new RabbitMqOptionsValidator(), options);
        options = options.Copy();
        _options = options;
        _signer = signer;
        _timeProvider = timeProvider ?? TimeProvider.System;
        _topology = new RabbitMqTopology(options);
        _limit = new RabbitMqFrameLimit(options.MaxFrameBytes);
        _unroutedGroups = new UnroutedGroups(options.UnroutableGrace, _timeProvider);
        _logger = GuardedLogger.Of(logger);
        _groups = new RabbitMqGroupRouting(options, _topology, _timeProvider, _logger);
        _connection = new RabbitMqConnection(options, "sender", ChannelOptions, PrepareAsync, _timeProvider, _logger, metrics);
    }

    /// <summary>True: the caller's thread only encodes frames and hands them to the connection's writer. Connecting and confirms are awaited.</summary>
    public bool SendsWithoutBlocking => true;

    /// <inheritdoc/>
    public int MaxMessageBytes => MaxBatchBytes;

    /// <inheritdoc/>
    public int MaxBatchBytes => _options.MaxFrameBytes - FrameWriter.OverheadBytes;

    /// <inheritdoc/>
    public FrameDestination GetDestination(OutputHandle handle) => FrameDestination.Of(handle, _options.DestinationNode);

    /// <inheritdoc/>
    public string LimitingSetting => $"{nameof(RabbitMqOptions)}.{nameof(RabbitMqOptions.MaxFrameBytes)}";

    /// <summary>Publishes the batches, and completes when the broker has confirmed all frames.</summary>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="IOException">The broker can't be reached, or did not confirm within <see cref="RabbitMqOptions.PublishTimeout"/>; or there is no connection now, and <see cref="RabbitMqOptions.FailFast"/> is set.</exception>
    /// <exception cref="ObjectDisposedException">The transport is disposed.</exception>
    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        var open = _options.FailFast ? _connection.GetOpen() : await _connection.OpenAsync(cancellationToken).ConfigureAwait(false);
        if (GroupHold is { } hold)
            await hold.WaitAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            await _groups.PrepareAsync(open, batches, cancellationToken).ConfigureAwait(false);
        }
        catch (Exception exception) when (exception is TimeoutException or OperationCanceledException)
        {
            // Its connection may seem open and never answer again.
            _connection.Discard(open, NotConfirmed);
            cancellationToken.ThrowIfCancellationRequested();
            throw new IOException(Late().Reason, exception);
        }

        var frames = FramePlan.Create(batches, _limit.Bytes, _options.DestinationNode, _signer, _groups.IsCertain(open));
        var results = _wasExchangeMissing
            ? await PublishBoundAsync(frames, open, cancellationToken).ConfigureAwait(false) : await PublishAllAsync(frames, open, cancellationToken).ConfigureAwait(false);
        _proven = Array.Exists(results, static result => HoldUp(default, result) is not null) ? null : open;
        var isDoubtful = _rejected.Note(frames, results, open);
        if (Array.TrueForAll(results, static result => result.Outcome == FrameOutcome.Acknowledged))
            return;
        if (Array.Exists(results, static result => result.Outcome == FrameOutcome.Unknown))
            _connection.Discard(open, NotConfirmed);
        else if (isDoubtful && _timeProvider.GetElapsedTime(open.OpenedTimestamp) >= ChannelTrial)
            _connection.Discard(open, "The broker rejected a publish.");
        if (!Array.Exists(results, static result => RabbitMqClosing.IsUnfit(result.Error)))
            throw FrameReport.ToException(_connection.Target, frames, results, batches.Length);
        // The broker ignored all frames after the one that it can't take, and frames of other sends on the channel failed with it.
        await SendEachAsync(batches, cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Closes the connection. Dispose the buffer first: sends that are under way fail.</summary>
    public async ValueTask DisposeAsync()
    {
        await _groups.DisposeAsync().ConfigureAwait(false);
        await _connection.DisposeAsync().ConfigureAwait(false);
    }

    /// <summary>What its sends wait for where the process has a receiver too; null where it has none.</summary>
    internal RabbitMqGroupHold? GroupHold { get; init; }

    /// <summary>What the logger has thrown, in a sentence; null when it has thrown nothing.</summary>
    internal string? LoggerFault => _logger.Faults.Description;

    /// <summary>What the application's callback has thrown, in a sentence; null when it has thrown nothing.</summary>
    internal string? CallbackFault => _connection.CallbackFault;

    /// <inheritdoc cref="RabbitMqConnection.StartAsync"/>
    internal Task StartAsync(CancellationToken cancellationToken) => _connection.StartAsync(cancellationToken);

    /// <inheritdoc cref="RabbitMqConnection.FindFaultAsync"/>
    internal Task<string?> FindFaultAsync(CancellationToken cancellationToken) => _connection.FindFaultAsync(cancellationToken);

    private async Task PrepareAsync(IConnection connection, IChannel channel, CancellationToken cancellationToken)
    {
        if (_options.DeclareTopology && _hasDeclared && await RabbitMqTopology.IsExchangeMissingAsync(connection, _topology.Exchange, _timeProvider, cancellationToken).ConfigureAwait(false))
        {
            Log.ExchangeMissing(_logger, _topology.Exchange, _connection.Target, _options.UnroutableGrace);
            _exchangeMissingSince = _timeProvider.GetTimestamp();
            _wasExchangeMissing = true;
        }

        await _topology.DeclareExchangeAsync(channel, cancellationToken).ConfigureAwait(false);
        _hasDeclared = true;
    }

    private ValueTask<FrameResult[]> PublishAllAsync(IReadOnlyList<PlannedFrame> frames, OpenChannel open, CancellationToken cancellationToken) =>
        frames.Count == 1 || (IsProven(open) && !_rejected.Concern(frames))
            ? WaitAsync(Publish(frames, open), open, cancellationToken)
            : FrameTurns.PublishAsync(frames, run => WaitAsync(Publish(run, open), open, cancellationToken), HoldUp);

    private bool IsProven(OpenChannel open) => _proven == open && _timeProvider.GetElapsedTime(open.OpenedTimestamp) >= ChannelTrial;

    private Task<FrameResult>[] Publish(IReadOnlyList<PlannedFrame> frames, OpenChannel open)
    {
        var publishes = new Task<FrameResult>[frames.Count];
        for (var index = 0; index < publishes.Length; index++)
            publishes[index] = PublishAsync(open, frames[index]);
        return publishes;
    }

    // Without an answer nothing is known of the connection. A frame that the broker rejected it may take later; one that it returned holds up no other.
    private static FrameDestination? HoldUp(FrameDestination destination, FrameResult result) =>
        result.Outcome == FrameOutcome.Unknown ? FrameDestination.All : result.Error is PublishException { IsReturn: false } ? destination : null;

    /// <summary>Sends each batch alone, in order, over a separate channel, so that a batch that the broker never takes is identified and does not affect the others.</summary>
    private async Task SendEachAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        var outcomes = new BatchOutcome[batches.Length];
        FrameResult? failed = null;
        OpenChannel? alone = null;
        try
        {
            for (var index = 0; index < outcomes.Length; index++)
            {
                alone = await OpenAloneAsync(alone, cancellationToken).ConfigureAwait(false);
                var frame = FramePlan.Create(batches.Slice(index, 1), _limit.Bytes, _options.DestinationNode, _signer)[0];
                var result = (await WaitAsync([PublishAsync(alone, frame)], alone, cancellationToken).ConfigureAwait(false))[0];
                outcomes[index] = result.Outcome == FrameOutcome.Acknowledged ? BatchOutcome.Acknowledged
                    : result.Outcome == FrameOutcome.Refused || RabbitMqClosing.IsUnfit(result.Error) ? BatchOutcome.Refused
                    : result.Outcome == FrameOutcome.NotTaken ? BatchOutcome.Busy
                    : BatchOutcome.Unacknowledged;
                if (outcomes[index] != BatchOutcome.Acknowledged)
                    failed ??= result;
                // Later batches must not overtake it.
                if (outcomes[index] is BatchOutcome.Unacknowledged or BatchOutcome.Busy)
                    break;
            }
        }
        finally
        {
            if (alone is not null)
                await RabbitMqEnd.EndAsync(alone.Channel, _timeProvider).ConfigureAwait(false);
        }

        if (failed is { } reason)
            throw new BatchSendException(ImmutableCollectionsMarshal.AsImmutableArray(outcomes), $"{_connection.Target} did not accept everything. {reason.Reason}", reason.Error);
    }

    private async Task<OpenChannel> OpenAloneAsync(OpenChannel? earlier, CancellationToken cancellationToken)
    {
        if (earlier is { Channel.IsOpen: true })
            return earlier;
        if (earlier is not null)
            await RabbitMqEnd.EndAsync(earlier.Channel, _timeProvider).ConfigureAwait(false);
        var open = await _connection.OpenAsync(cancellationToken).ConfigureAwait(false);
        return open with { Channel = await open.Connection.CreateChannelAsync(ChannelOptions, cancellationToken).ConfigureAwait(false) };
    }

    // While no queue is bound to the new exchange, the broker would confirm a frame to all nodes although it reaches none. So that frame waits, and those behind it do.
    private async ValueTask<FrameResult[]> PublishBoundAsync(IReadOnlyList<PlannedFrame> frames, OpenChannel open, CancellationToken cancellationToken)
    {
        if (_timeProvider.GetElapsedTime(Volatile.Read(ref _exchangeMissingSince)) >= _options.UnroutableGrace)
        {
            _wasExchangeMissing = false;
            return await PublishAllAsync(frames, open, cancellationToken).ConfigureAwait(false);
        }

        PlannedFrame[] bound = [.. frames.TakeWhile(static frame => !frame.Destination.IsAll)];
        var reason = $"Exchange {_topology.Exchange} was deleted, and is declared again. Output for groups waits until receivers have bound their queues again.";
        if (bound.Length == 0)
            throw new IOException(reason);
        var results = await PublishAllAsync(bound, open, cancellationToken).ConfigureAwait(false);
        return [.. results, .. Enumerable.Repeat(new FrameResult(FrameOutcome.NotTaken, reason), frames.Count - bound.Length)];
    }

    // Reads the batches only before its first await: once the send is given up, their memory may be reused.
    private async Task<FrameResult> PublishAsync(OpenChannel open, PlannedFrame frame)
    {
        PooledFrame? encoded = null;
        FrameAddress address = default;
        try
        {
            encoded = frame.Encode(_signer);
            if (encoded.Bytes.Length > _limit.Bytes)
                return new FrameResult(FrameOutcome.Refused, $"A batch for {frame.Destination} does not fit {_limit.Remedy}");
            address = _groups.Address(frame, open);
            // Never cancelled by a token: that can corrupt the client's tracking of confirms (rabbitmq-dotnet-client, issue 1900).
            await open.Channel.BasicPublishAsync(_topology.Exchange, address.Key, address.IsMandatory, address.Properties, encoded.Bytes, CancellationToken.None)
                .ConfigureAwait(false);
            if (frame.Destination.IsAll && address.IsMandatory)
                _unroutedGroups.Reach();
            return new FrameResult(FrameOutcome.Acknowledged);
        }
        catch (ArgumentException exception) when (encoded is null)
        {
            return new FrameResult(FrameOutcome.Refused, $"A batch for {frame.Destination} can't be encoded: {FailureText.MessageOf(exception)}", exception);
        }
        catch (PublishException exception)
        {
            if (exception.IsReturn)
                return EvaluateReturn(open, frame.Destination);

            _groups.Reject();
            // The broker did not accept it, for example because the queue has reached a limit that its operator set. When the leader of a quorum queue fails, RabbitMQ before 3.12 may also reject every publish on a
            // channel for as long as the channel is open; it accepts the same publish on a new channel.
            return new FrameResult(FrameOutcome.NotTaken, $"The broker did not accept a frame for {frame.Destination}.", exception);
        }
        catch (Exception exception)
        {
            var closed = (exception as OperationInterruptedException)?.ShutdownReason;
            _limit.Learn(closed?.ReplyText);
            return new FrameResult(FrameOutcome.Unknown, _topology.ExplainMissing(closed) ?? RabbitMqClosing.Explain(exception) ?? FailureText.MessageOf(exception), exception);
        }
        finally
        {
            _groups.Settle(address);
            encoded?.Dispose();
        }
    }

    private FrameResult EvaluateReturn(OpenChannel open, FrameDestination destination)
    {
        if (destination.IsAll)
        {
            return _unroutedGroups.ShouldRetry()
                ? new FrameResult(FrameOutcome.NotTaken, "No queue is bound for all nodes any more.")
                : new FrameResult(FrameOutcome.Acknowledged);
        }

        // Shortly after connecting, the node's receiver may still be about to declare its queue.
        var mayComeBack = _timeProvider.GetElapsedTime(open.OpenedTimestamp) < _options.UnroutableGrace;
        if (!mayComeBack)
            _groups.Forget(destination.Node);
        return new FrameResult(mayComeBack ? FrameOutcome.NotTaken : FrameOutcome.Refused, $"{destination} has no queue: no receiver runs there. Start the process that has that Node and receives from RabbitMQ with the same Prefix and VirtualHost.");
    }

    private async ValueTask<FrameResult[]> WaitAsync(Task<FrameResult>[] publishes, OpenChannel open, CancellationToken cancellationToken)
    {
        Task all = publishes.Length == 1 ? publishes[0] : Task.WhenAll(publishes);
        try
        {
            await all.WaitAsync(_options.PublishTimeout, _timeProvider, cancellationToken).ConfigureAwait(false);
        }
        catch (TimeoutException)
        {
            // Frames that were answered in time keep their result; the others are reported as late.
        }
        catch (OperationCanceledException)
        {
            _connection.Discard(open, NotConfirmed);
            throw;
        }

        if (publishes.Length == 1 && publishes[0].IsCompleted && (await publishes[0].ConfigureAwait(false)).Outcome == FrameOutcome.Acknowledged)
            return OneAcknowledged;
        var results = new FrameResult[publishes.Length];
        for (var index = 0; index < results.Length; index++)
            results[index] = publishes[index].IsCompleted ? await publishes[index].ConfigureAwait(false) : Late();
        return results;
    }

    private string NotConfirmed => $"A publish was not confirmed within {_options.PublishTimeout} ({nameof(RabbitMqOptions.PublishTimeout)}), or the connection ended.";

    private FrameResult Late()
    {
        var late = _connection.BlockedReason is { } reason
            ? $"The broker accepts no messages now: {reason}." : $"The broker did not confirm within {_options.PublishTimeout} ({nameof(RabbitMqOptions.PublishTimeout)}).";
        return new FrameResult(FrameOutcome.Unknown, late, new TimeoutException(late));
    }
}

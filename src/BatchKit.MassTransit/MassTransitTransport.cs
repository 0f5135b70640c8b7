using System.Runtime.InteropServices;
using BatchKit.Diagnostics;
using BatchKit.RabbitMQ;
using BatchKit.Transports;
using MassTransit;
using BrokerRejection = RabbitMQ.Client.Exceptions.PublishException;

namespace BatchKit.MassTransit;

/// <summary>Sends batches over a MassTransit bus: each send is one frame for each destination, and each frame is one <see cref="BatchEnvelope"/>.</summary>
/// <remarks>
/// Output for a connection goes to its node's queue, output for a named handle to every node's. A send completes when the bus has confirmed all its frames. On RabbitMQ, output
/// for a node that has no queue is refused (<see cref="BatchOutcome.Refused"/>); output for a named handle succeeds even when no node receives it. Thread-safe. Register it
/// with <c>UseMassTransit</c>, or create it yourself over your own bus.
/// </remarks>
public sealed class MassTransitTransport : IBatchTransport, IBlockingDisposable
{
    // The least time between two renewals of the connection. A queue that has reached its operator's limit rejects too, and a new connection does not change that.
    private static readonly TimeSpan RenewalPause = TimeSpan.FromSeconds(2);

    private static readonly TimeSpan ChannelPause = TimeSpan.FromMilliseconds(50);

    private readonly BusConnection _connection;
    private readonly FrameSigner? _signer;
    private readonly RabbitMqFrameLimit _limit;
    private readonly TimeProvider _timeProvider;
    private readonly UnroutedGroups _unroutedGroups;
    private volatile ConnectionAge? _exchangeMissing;
    private volatile bool _wasRejected;
    private readonly ConnectionReporter _reporter;
    private readonly ConnectHandle[] _watching;
    private volatile bool _isDisposed;
    private long _renewedAt;

    /// <summary>Creates a transport over a bus that the caller configures, starts and stops.</summary>
    /// <param name="bus">The bus; on RabbitMQ with publisher confirms, which are MassTransit's default.</param>
    /// <param name="options">The settings, read now; the defaults when null. Those of the connection and <see cref="MassTransitOptions.Bus"/> are not used.</param>
    /// <param name="timeProvider">The clock; the system's by default.</param>
    /// <param name="signer">Signs the frames; null for none.</param>
    /// <param name="metrics">The instruments of the bus's connection; null for none.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public MassTransitTransport(IBus bus, MassTransitOptions? options = null, TimeProvider? timeProvider = null, FrameSigner? signer = null, ConnectionMetrics? metrics = null)
        : this(BusConnection.To(bus, options, timeProvider, metrics), timeProvider, signer)
    {
    }

    internal MassTransitTransport(BusConnection connection, TimeProvider? timeProvider, FrameSigner? signer = null)
    {
        _connection = connection;
        _signer = signer;
        _limit = new RabbitMqFrameLimit(Options.MaxFrameBytes);
        _timeProvider = timeProvider ?? TimeProvider.System;
        _unroutedGroups = new UnroutedGroups(Options.UnroutableGrace, _timeProvider);
        _reporter = connection.CreateReporter("sender");
        connection.Link?.Report(Report);
        _watching = [connection.Bus.ConnectReceiveEndpointObserver(new SenderWatch(_reporter)), connection.Bus.ConnectSendObserver(new SendAttemptObserver())];
    }

    /// <summary>True: the caller's thread only encodes frames. Connecting and confirms are awaited.</summary>
    public bool SendsWithoutBlocking => true;

    /// <inheritdoc/>
    public int MaxMessageBytes => MaxBatchBytes;

    /// <inheritdoc/>
    public int MaxBatchBytes => Options.MaxFrameBytes - FrameWriter.OverheadBytes;

    /// <inheritdoc/>
    public FrameDestination GetDestination(OutputHandle handle) => FrameDestination.Of(handle, Options.DestinationNode);

    /// <inheritdoc/>
    public string LimitingSetting => $"{nameof(MassTransitOptions)}.{nameof(MassTransitOptions.MaxFrameBytes)}";

    /// <summary>What the application's callback has thrown, in a sentence; null when it has thrown nothing.</summary>
    internal string? CallbackFault => _reporter.CallbackFault;

    private MassTransitOptions Options => _connection.Options;

    /// <summary>Sends the batches, and completes when the bus has confirmed all frames.</summary>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="TimeoutException">A frame was not confirmed within <see cref="MassTransitOptions.PublishTimeout"/>.</exception>
    /// <exception cref="ObjectDisposedException">The transport is disposed.</exception>
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        cancellationToken.ThrowIfCancellationRequested();
        var frames = FramePlan.Create(batches, _limit.Bytes, Options.DestinationNode, _signer);
        return frames.Count == 1 ? SendOneAsync(frames[0], batches, cancellationToken) : SendInTurnAsync(frames, batches, cancellationToken);
    }

    /// <summary>Accepts no more sends. It does not stop the bus.</summary>
    public ValueTask DisposeAsync()
    {
        _isDisposed = true;
        foreach (var watching in _watching)
            watching.Disconnect();
        _reporter.Close();
        return ValueTask.CompletedTask;
    }

    private void Report(string? reason)
    {
        if (_isDisposed)
            return;
        if (reason is null)
            _reporter.Open();
        else
            _reporter.Lose(reason);
    }

    private async ValueTask SendOneAsync(PlannedFrame frame, ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        try
        {
            await SendFrameAsync(frame, cancellationToken).ConfigureAwait(false);
        }
        catch (FrameUnfitException) when (batches.Length > 1)
        {
            await SendEachAsync(batches, cancellationToken).ConfigureAwait(false);
        }
        catch (Exception exception) when (OutcomeOf(exception) != FrameOutcome.Unknown)
        {
            throw new BatchSendException([.. Enumerable.Repeat(ToBatchOutcome(OutcomeOf(exception)), batches.Length)], FailureText.MessageOf(exception), exception);
        }
    }

    private async ValueTask SendInTurnAsync(IReadOnlyList<PlannedFrame> frames, ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        var results = await FrameTurns.PublishAsync(frames, run => TrySendAsync(run, cancellationToken), HoldUp).ConfigureAwait(false);
        if (Array.TrueForAll(results, static result => result.Outcome == FrameOutcome.Acknowledged))
            return;
        if (!Array.Exists(results, MayFitAlone))
            throw FrameReport.ToException("The bus", frames, results, batches.Length);
        await SendEachAsync(batches, cancellationToken).ConfigureAwait(false);
    }

    // Without an answer nothing is known of the connection, and a frame with a batch that the broker never takes is divided before anything else is sent.
    private static FrameDestination? HoldUp(FrameDestination destination, FrameResult result) =>
        result.Outcome == FrameOutcome.Unknown || MayFitAlone(result) ? FrameDestination.All : result.Outcome == FrameOutcome.NotTaken ? destination : null;

    private static bool MayFitAlone(FrameResult result) => result.Error is FrameUnfitException && result.Outcome != FrameOutcome.Refused;

    /// <summary>Sends each batch as a separate frame, in order, so that a batch that the broker never takes does not affect the others.</summary>
    private async ValueTask SendEachAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        var outcomes = new BatchOutcome[batches.Length];
        FrameResult? failed = null;
        for (var index = 0; index < outcomes.Length; index++)
        {
            var frame = FramePlan.Create(batches.Slice(index, 1), _limit.Bytes, Options.DestinationNode, _signer)[0];
            var result = await SendAloneAsync(frame, cancellationToken).ConfigureAwait(false);
            outcomes[index] = ToBatchOutcome(result.Outcome);
            if (outcomes[index] != BatchOutcome.Acknowledged)
                failed ??= result;
            // Later batches must not overtake it.
            if (outcomes[index] is BatchOutcome.Unacknowledged or BatchOutcome.Busy)
                break;
        }

        if (failed is { } reason)
            throw new BatchSendException(ImmutableCollectionsMarshal.AsImmutableArray(outcomes), reason.Reason!, reason.Error);
    }

    /// <summary>Sends a frame. The bus may still use the channel that the broker closed because of an earlier frame. Then the send is repeated until the bus has another channel.</summary>
    private async Task<FrameResult> SendAloneAsync(PlannedFrame frame, CancellationToken cancellationToken)
    {
        var began = _timeProvider.GetTimestamp();
        while (true)
        {
            var result = await TrySendAsync(frame, cancellationToken).ConfigureAwait(false);
            if (result.Outcome != FrameOutcome.Unknown || result.Error is TimeoutException || _timeProvider.GetElapsedTime(began) > Options.PublishTimeout)
                return result;

            await Task.Delay(ChannelPause, _timeProvider, cancellationToken).ConfigureAwait(false);
        }
    }

    private async ValueTask<FrameResult[]> TrySendAsync(PlannedFrame[] frames, CancellationToken cancellationToken) =>
        await Task.WhenAll(Array.ConvertAll(frames, frame => TrySendAsync(frame, cancellationToken))).ConfigureAwait(false);

    private async Task<FrameResult> TrySendAsync(PlannedFrame frame, CancellationToken cancellationToken)
    {
        try
        {
            await SendFrameAsync(frame, cancellationToken).ConfigureAwait(false);
            return new FrameResult(FrameOutcome.Acknowledged);
        }
        catch (FrameUnfitException exception) when (frame.Batches.Length > 1)
        {
            return new FrameResult(FrameOutcome.NotTaken, FailureText.MessageOf(exception), exception);
        }
        catch (Exception exception)
        {
            return new FrameResult(OutcomeOf(exception), FailureText.MessageOf(exception), exception);
        }
    }

    private static BatchOutcome ToBatchOutcome(FrameOutcome outcome) => outcome switch
    {
        FrameOutcome.Acknowledged => BatchOutcome.Acknowledged,
        FrameOutcome.Refused => BatchOutcome.Refused,
        FrameOutcome.NotTaken => BatchOutcome.Busy,
        _ => BatchOutcome.Unacknowledged,
    };

    private static FrameOutcome OutcomeOf(Exception exception) => exception switch
    {
        FrameRefusedException or FrameUnfitException => FrameOutcome.Refused,
        FrameNotTakenException => FrameOutcome.NotTaken,
        _ => FrameOutcome.Unknown,
    };

    // MassTransit's transports take an array of the exact size.
    private byte[] Encode(PlannedFrame frame)
    {
        try
        {
            using var encoded = frame.Encode(_signer);
            return encoded.Bytes.Length <= _limit.Bytes
                ? encoded.Bytes.ToArray()
                : throw new FrameRefusedException($"A batch needs a frame of more than {_limit.Remedy}");
        }
        catch (ArgumentException exception)
        {
            throw new FrameRefusedException($"A batch for {frame.Destination} can't be encoded: {FailureText.MessageOf(exception)}", exception);
        }
    }

    private async Task SendFrameAsync(PlannedFrame frame, CancellationToken cancellationToken)
    {
        var (bytes, destination) = (Encode(frame), frame.Destination);
        if (destination.IsAll && _exchangeMissing is { } missing)
            ThrowIfUnbound(missing);
        // MassTransit retries until its token is cancelled, so the token always has a time limit.
        using var limit = new CancellationTokenSource(Options.PublishTimeout, _timeProvider);
        using var cancelling = cancellationToken.UnsafeRegister(static state => ((CancellationTokenSource)state!).Cancel(), limit);
        try
        {
            await _connection.SendAsync(bytes, destination.IsAll ? null : destination.Node, limit.Token).ConfigureAwait(false);
            _reporter.Open();
            _wasRejected = false;
            if (destination.IsAll)
                _unroutedGroups.Reach();
        }
        catch (MessageReturnedException exception)
        {
            ThrowIfNotTaken(destination, exception);
        }
        catch (OperationCanceledException exception) when (!cancellationToken.IsCancellationRequested)
        {
            _connection.Age.Restart();
            _reporter.Lose($"The bus did not confirm a frame within {Options.PublishTimeout}.");
            _connection.LookForAlarm();
            Renew();
            throw new TimeoutException($"The bus did not confirm a frame within {nameof(MassTransitOptions.PublishTimeout)} ({Options.PublishTimeout}). Check that the broker runs, can be reached and has no alarm, or raise the time.", exception);
        }
        catch (Exception exception) when (exception is not OperationCanceledException)
        {
            if (NoteFailure(exception, bytes.Length, destination) is { } explained)
                throw explained;
            throw;
        }
    }

    /// <returns>What says more than the failure itself, if there is something.</returns>
    private Exception? NoteFailure(Exception failure, int bytes, FrameDestination destination)
    {
        var cause = FailureText.CauseOf(failure);
        if (cause is BrokerRejection { IsReturn: false })
            return NoteRejection(destination, failure);
        _connection.Age.Restart();
        if (RabbitMqClosing.FindExchangeRefusal(failure, _connection.Topology.DirectName, out var isForbidden) is not null && !isForbidden)
            _exchangeMissing = new ConnectionAge(_timeProvider);
        if (RabbitMqClosing.FindSizeRefusal(failure, bytes) is { } refusal)
            return Unfit(destination, refusal, failure);
        var explanation = RabbitMqClosing.Explain(failure);
        _reporter.Lose(explanation ?? FailureText.MessageOf(cause));
        return explanation is null ? null : new IOException($"{_connection.Target} did not accept a frame for {destination}: {explanation}", failure);
    }

    // A full queue rejects over any connection, which others use too: it is replaced only when the broker has taken nothing since the last rejection.
    private FrameNotTakenException NoteRejection(FrameDestination destination, Exception rejection)
    {
        if (_wasRejected && Options.UseQuorumQueues)
            Renew();
        _wasRejected = true;
        return new FrameNotTakenException($"{_connection.Target} did not accept a frame for {destination}.", rejection);
    }

    private FrameUnfitException Unfit(FrameDestination destination, string refusal, Exception exception)
    {
        _limit.Learn(refusal);
        return new FrameUnfitException($"The broker does not take a frame for {destination}: {refusal}", exception);
    }

    // When the leader of a quorum queue fails, RabbitMQ before 3.12 may reject every publish on a channel, or not answer it, for as long as the channel is open. It accepts the same publish on a new channel.
    private void Renew()
    {
        var renewedAt = Volatile.Read(ref _renewedAt);
        if (renewedAt != 0 && _timeProvider.GetElapsedTime(renewedAt) < RenewalPause)
            return;
        if (Interlocked.CompareExchange(ref _renewedAt, _timeProvider.GetTimestamp(), renewedAt) == renewedAt)
            _connection.Renew();
    }

    private void ThrowIfNotTaken(FrameDestination destination, MessageReturnedException returned)
    {
        if (destination.IsAll)
        {
            if (_unroutedGroups.ShouldRetry())
                throw new FrameNotTakenException("No queue is bound for all nodes any more.", returned);
            return;
        }

        if (_connection.Age.IsBelow(Options.UnroutableGrace))
            throw new FrameNotTakenException($"Node {destination.Node} has no queue yet, and the bus connected only recently.", returned);
        throw new FrameRefusedException($"Node {destination.Node} has no queue: no receiver runs there. Start the process that has that Node and receives from the same bus with the same Prefix.", returned);
    }

    // The bus declares a deleted exchange again. The broker then confirms a frame to all nodes although no queue is bound to the exchange yet.
    private void ThrowIfUnbound(ConnectionAge missing)
    {
        if (missing.IsBelow(Options.UnroutableGrace))
            throw new IOException("An exchange was deleted, and is declared again. Output for groups waits until receivers have bound their queues again.");
        _exchangeMissing = null;
    }

    /// <summary>The broker will never take the frame, for example because it exceeds <c>max_message_size</c>. It may take a smaller frame with some of the same batches.</summary>
    private sealed class FrameUnfitException(string message, Exception cause) : Exception(message, cause);
}

using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>Sends batches over RabbitMQ: one frame per send and destination, each confirmed by the broker.</summary>
/// <remarks>
/// It connects at the first send, and connects again after it lost the connection. All sends share one channel, so concurrent sends keep their order.
/// Register it with <c>UseRabbitMq</c>, or create it yourself and dispose it after the buffer.
/// </remarks>
public sealed class RabbitMqTransport : IBatchTransport, IAsyncDisposable
{
    // Room in a frame for everything beside the message: producer, numbers and a handle with a short name.
    private const int FrameOverheadBytes = 1024;

    private readonly RabbitMqOptions _options;
    private readonly TimeProvider _timeProvider;
    private readonly RabbitMqTopology _topology;
    private readonly RabbitMqConnection _connection;

    /// <summary>Creates a transport; it does not connect yet.</summary>
    /// <param name="options">Its settings.</param>
    /// <param name="timeProvider">The clock; the system's when null.</param>
    /// <param name="logger">Where it logs its connections; nowhere when null.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public RabbitMqTransport(RabbitMqOptions options, TimeProvider? timeProvider = null, ILogger<RabbitMqTransport>? logger = null)
    {
        ArgumentNullException.ThrowIfNull(options);
        RabbitMqOptionsValidator.ThrowIfInvalid(options);
        _options = options;
        _timeProvider = timeProvider ?? TimeProvider.System;
        _topology = new RabbitMqTopology(options);
        // No rate limiter: a send's frames are few, and dispatch bounds the sends.
        var channelOptions = new CreateChannelOptions(publisherConfirmationsEnabled: true, publisherConfirmationTrackingEnabled: true);
        _connection = new RabbitMqConnection(
            options, "sender", channelOptions, _topology.DeclareExchangeAsync, _timeProvider, logger ?? NullLogger<RabbitMqTransport>.Instance);
    }

    /// <summary>True: the caller's thread only encodes frames and hands them to the connection's writer. Connecting and confirms are awaited.</summary>
    public bool SendsWithoutBlocking => true;

    /// <inheritdoc/>
    public int MaxMessageBytes => _options.MaxFrameBytes - FrameOverheadBytes;

    /// <summary>Publishes the batches, and completes when the broker has confirmed all frames.</summary>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="IOException">The broker can't be reached, or did not confirm within <see cref="RabbitMqOptions.PublishTimeout"/>.</exception>
    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        var open = await _connection.OpenAsync(cancellationToken).ConfigureAwait(false);
        var frames = FramePlan.Create(batches, _options.MaxFrameBytes, _options.DestinationNode);
        var publishes = new Task<FrameResult>[frames.Count];
        for (var index = 0; index < publishes.Length; index++)
            publishes[index] = PublishAsync(open, frames[index]);
        var results = await WaitAsync(publishes, open, cancellationToken).ConfigureAwait(false);
        if (Array.TrueForAll(results, static result => result.Outcome == FrameOutcome.Acknowledged))
            return;
        if (Array.Exists(results, static result => result.Outcome == FrameOutcome.Unknown))
            _connection.Discard(open);
        throw FrameReport.ToException(_connection.Target, frames, results, batches.Length);
    }

    /// <summary>Closes the connection. Dispose the buffer first: sends that are under way fail.</summary>
    public ValueTask DisposeAsync() => _connection.DisposeAsync();

    /// <summary>Returns why the transport can't send now, or null when it can. Connects to find out.</summary>
    internal async Task<string?> FindFaultAsync(CancellationToken cancellationToken)
    {
        try
        {
            await _connection.OpenAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (IOException exception)
        {
            return exception.Message;
        }

        return _connection.BlockedReason is { } reason ? $"{_connection.Target} accepts no messages now: {reason}." : null;
    }

    // Reads the batches only before its first await: after a send was given up, its memory may be in use again.
    private async Task<FrameResult> PublishAsync(OpenChannel open, PlannedFrame frame)
    {
        using var encoded = PooledFrame.Encode(frame.Batches);
        if (encoded.Bytes.Length > _options.MaxFrameBytes)
            return new FrameResult(FrameOutcome.Refused, $"A batch for {frame.Destination} does not fit {nameof(RabbitMqOptions.MaxFrameBytes)}.");
        var properties = new BasicProperties { Persistent = _options.Durable };
        try
        {
            // Never cancelled by a token: that can corrupt the client's tracking of confirms (rabbitmq-dotnet-client, issue 1900).
            await open.Channel.BasicPublishAsync(_topology.Exchange, RabbitMqTopology.RoutingKey(frame.Destination), mandatory: !frame.Destination.IsAll,
                properties, encoded.Bytes, CancellationToken.None).ConfigureAwait(false);
            return new FrameResult(FrameOutcome.Acknowledged);
        }
        catch (PublishException exception) when (exception.IsReturn)
        {
            // Shortly after connecting, the node's receiver may still be about to declare its queue.
            var mayComeBack = _timeProvider.GetElapsedTime(open.OpenedTimestamp) < _options.UnroutableGrace;
            return new FrameResult(mayComeBack ? FrameOutcome.NotTaken : FrameOutcome.Refused, $"{frame.Destination} has no queue: no receiver runs there.");
        }
        catch (PublishException)
        {
            // For example, the queue is at a limit that its operator set.
            return new FrameResult(FrameOutcome.NotTaken, $"The broker did not accept a frame for {frame.Destination}.");
        }
        catch (Exception exception)
        {
            // The broker neither confirmed nor refused; the send reports the exception.
            return new FrameResult(FrameOutcome.Unknown, exception.Message, exception);
        }
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
            _connection.Discard(open);
            throw;
        }

        var results = new FrameResult[publishes.Length];
        for (var index = 0; index < results.Length; index++)
            results[index] = publishes[index].IsCompleted ? await publishes[index].ConfigureAwait(false) : Late();
        return results;
    }

    private FrameResult Late()
    {
        var late = new TimeoutException(_connection.BlockedReason is { } reason
            ? $"The broker accepts no messages now: {reason}."
            : $"The broker did not confirm within {_options.PublishTimeout} ({nameof(RabbitMqOptions.PublishTimeout)}).");
        return new FrameResult(FrameOutcome.Unknown, late.Message, late);
    }
}

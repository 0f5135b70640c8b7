using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>Sends batches over RabbitMQ: one frame per send and destination, each confirmed by the broker.</summary>
/// <remarks>
/// It connects at the first send and again after it lost the connection. All its sends share one channel, so side by side they keep their order.
/// Register it with <c>UseRabbitMq</c>, or make it by hand and dispose it after the buffer.
/// </remarks>
public sealed class RabbitMqTransport : IBatchTransport, IAsyncDisposable
{
    // What a frame has beside one message for a handle with a short name.
    private const int FrameOverheadBytes = 1024;

    private readonly RabbitMqOptions _options;
    private readonly TimeProvider _timeProvider;
    private readonly RabbitMqTopology _topology;
    private readonly RabbitMqConnection _connection;

    /// <summary>Makes a transport; it does not connect yet.</summary>
    /// <param name="options">Its settings.</param>
    /// <param name="timeProvider">The time; the system's when null.</param>
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

    /// <summary>True: it encodes and hands over to the connection's own writer; connecting and confirms are awaited.</summary>
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
        var frames = FramePlan.Make(batches, _options.MaxFrameBytes, _options.DestinationNode);
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

    /// <summary>Closes the connection. Dispose the buffer first: what is being sent fails.</summary>
    public ValueTask DisposeAsync() => _connection.DisposeAsync();

    /// <summary>Why it cannot send now, or null when it can; connects to find out.</summary>
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

        return _connection.BlockedReason is { } reason ? $"{_connection.Target} takes no messages now: {reason}." : null;
    }

    // Reads the batches before its first await only, so that a send that was given up does not touch memory that is used again.
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
            // Shortly after connecting, a node without a queue may yet bring it.
            var mayComeBack = _timeProvider.GetElapsedTime(open.OpenedTimestamp) < _options.UnroutableGrace;
            return new FrameResult(mayComeBack ? FrameOutcome.NotTaken : FrameOutcome.Refused, $"{frame.Destination} has no queue: nobody receives there.");
        }
        catch (PublishException)
        {
            // As when a queue is at a limit that its operator set.
            return new FrameResult(FrameOutcome.NotTaken, $"The broker could not take a frame for {frame.Destination}.");
        }
        catch (Exception exception)
        {
            // Whatever it is, the broker said neither yes nor no; the send reports it.
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
            // Each frame that has its answer by now counts; the others are reported as late.
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
            ? $"It takes no messages now: {reason}."
            : $"It did not confirm within {_options.PublishTimeout} ({nameof(RabbitMqOptions.PublishTimeout)}).");
        return new FrameResult(FrameOutcome.Unknown, late.Message, late);
    }
}

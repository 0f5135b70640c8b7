using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>Publishes the application's own messages over a connection of its own: each is mandatory, and confirmed by the broker.</summary>
internal sealed class RabbitMqMessageSender : IBlockingDisposable
{
    private static readonly CreateChannelOptions ChannelOptions = new(publisherConfirmationsEnabled: true, publisherConfirmationTrackingEnabled: true);

    private readonly RabbitMqOptions _options;
    private readonly TimeProvider _timeProvider;
    private readonly RabbitMqConnection _connection;
    private readonly RabbitMqFrameLimit _limit = new(int.MaxValue);
    private readonly RabbitMqRefusedExchanges _refused;
    private readonly DoubtedChannel _doubted = new();

    public RabbitMqMessageSender(RabbitMqOptions options, TimeProvider timeProvider, ILogger logger, ConnectionMetrics? metrics)
    {
        _options = options.Copy();
        _timeProvider = timeProvider;
        _refused = new RabbitMqRefusedExchanges(_options.UnroutableGrace, timeProvider);
        _connection = new RabbitMqConnection(_options, "message sender", ChannelOptions, static (_, _, _) => Task.CompletedTask, timeProvider, logger, metrics);
    }

    /// <summary>Publishes a message; completes with the broker's confirm.</summary>
    /// <exception cref="MessageRefusedException">It reaches no queue, or the broker will never take it.</exception>
    /// <exception cref="IOException">The broker can't be reached, or did not accept or confirm it.</exception>
    public async ValueTask SendAsync(OutputHandle handle, RabbitMqMessage message, CancellationToken cancellationToken)
    {
        ThrowIfUnfit(handle, message);
        var open = _options.FailFast ? _connection.GetOpen() : await _connection.OpenAsync(cancellationToken).ConfigureAwait(false);
        await _refused.CheckAsync(open.Connection, message, cancellationToken).ConfigureAwait(false);
        try
        {
            await PublishAsync(open, message, cancellationToken).ConfigureAwait(false);
            _refused.Know(message.Exchange);
            _doubted.Clear();
        }
        catch (PublishException exception)
        {
            throw Explain(exception, open, handle, message);
        }
        catch (OperationInterruptedException exception) when (RabbitMqClosing.FindSizeRefusal(exception, message.Body.Length) is { } reason)
        {
            _limit.Learn(reason);
            _connection.Discard(open, reason);
            throw new MessageRefusedException($"{_connection.Target} does not take a message of {message.Body.Length} bytes for {handle}: {reason}", exception);
        }
        catch (OperationInterruptedException exception) when (RabbitMqRefusedExchanges.FindReason(exception, message) is { } reason)
        {
            _connection.Discard(open, reason);
            _refused.Add(exception, message, open.ReachedTimestamp);
            throw new IOException($"{_connection.Target} does not take a message to {Name(message)}: {reason}", exception);
        }
        catch (Exception exception)
        {
            // The channel may have been closed over another partition's message.
            _connection.Discard(open, "A publish was not confirmed.");
            if (exception is TimeoutException)
                throw new IOException($"{_connection.Target} did not confirm a message within {nameof(RabbitMqOptions.PublishTimeout)} ({_options.PublishTimeout}).", exception);
            throw;
        }
    }

    /// <summary>What the application's callback has thrown, in a sentence; null when it has thrown nothing.</summary>
    public string? CallbackFault => _connection.CallbackFault;

    /// <inheritdoc cref="RabbitMqConnection.StartAsync"/>
    public Task StartAsync(CancellationToken cancellationToken) => _connection.StartAsync(cancellationToken);

    /// <inheritdoc cref="RabbitMqConnection.FindFaultAsync"/>
    public Task<string?> FindFaultAsync(CancellationToken cancellationToken) => _connection.FindFaultAsync(cancellationToken);

    public ValueTask DisposeAsync() => _connection.DisposeAsync();

    private Task PublishAsync(OpenChannel open, RabbitMqMessage message, CancellationToken cancellationToken)
    {
        var properties = new BasicProperties { Persistent = _options.Durable, ContentType = message.ContentType, Type = message.Type };
        // A publish that is given up may still read its body, and the batch's memory is reused then.
        var body = message.Body.ToArray();
        // Never cancelled by a token: that can corrupt the client's tracking of confirms (rabbitmq-dotnet-client, issue 1900).
        return open.Channel.BasicPublishAsync(message.Exchange, message.RoutingKey, mandatory: true, properties, body, CancellationToken.None).AsTask()
            .WaitAsync(_options.PublishTimeout, _timeProvider, cancellationToken);
    }

    private Exception Explain(PublishException exception, OpenChannel open, OutputHandle handle, RabbitMqMessage message)
    {
        if (!exception.IsReturn)
        {
            // As in RabbitMqTransport: a channel may reject everything for as long as it is open.
            if (_doubted.Doubt(open) && _timeProvider.GetElapsedTime(open.OpenedTimestamp) >= RabbitMqTransport.ChannelTrial)
                _connection.Discard(open, "The broker rejected a publish.");
            return new IOException($"{_connection.Target} did not accept a message to {Name(message)}.", exception);
        }

        // Shortly after connecting, the consumer may still be about to declare its queue.
        return _timeProvider.GetElapsedTime(open.ReachedTimestamp) < _options.UnroutableGrace
            ? new IOException($"{Name(message)} leads to no queue yet.", exception)
            : new MessageRefusedException($"{Name(message)} leads to no queue: output for {handle} is lost. Start the consumer that declares and binds it.", exception);
    }

    private void ThrowIfUnfit(OutputHandle handle, RabbitMqMessage message)
    {
        if (message.Exchange is null || message.RoutingKey is null)
            throw new MessageRefusedException($"The message for {handle} has no exchange or no routing key. Set both; the default exchange is an empty text.");
        ThrowIfUnfit(handle, nameof(RabbitMqMessage.Exchange), message.Exchange);
        ThrowIfUnfit(handle, nameof(RabbitMqMessage.RoutingKey), message.RoutingKey);
        ThrowIfUnfit(handle, nameof(RabbitMqMessage.ContentType), message.ContentType);
        ThrowIfUnfit(handle, nameof(RabbitMqMessage.Type), message.Type);
        // The broker would close the channel, and with it what other partitions have under way.
        if (message.Body.Length > _limit.Bytes)
            throw new MessageRefusedException($"A message of {message.Body.Length} bytes for {handle} does not fit {_limit.Remedy}");
    }

    private static void ThrowIfUnfit(OutputHandle handle, string name, string? text)
    {
        if (text is not null && RabbitMqNames.FindFault(text, RabbitMqNames.MaxBytes) is { } fault)
            throw new MessageRefusedException($"{name} of the message for {handle} {fault}");
    }

    private static string Name(RabbitMqMessage message) => $"Exchange '{message.Exchange}' with routing key '{message.RoutingKey}'";
}

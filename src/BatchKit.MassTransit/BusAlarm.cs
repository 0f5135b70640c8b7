using BatchKit.RabbitMQ;
using BatchKit.Transports;
using RabbitMQ.Client;

namespace BatchKit.MassTransit;

/// <summary>Finds out whether RabbitMQ is in a memory or disk alarm, and when that ends.</summary>
/// <remarks>The broker tells only a connection that publishes, and MassTransit shows no one the connection over which it sends. So this one opens one of its own, at most one at a time.</remarks>
internal sealed class BusAlarm(MassTransitRabbitMqOptions options, TimeProvider timeProvider, CancellationToken stopping)
{
    /// <summary>A routing key by which no queue is bound.</summary>
    public const string Key = "none";

    private static readonly CreateChannelOptions Confirming = new(publisherConfirmationsEnabled: true, publisherConfirmationTrackingEnabled: true);

    private readonly Lock _gate = new();

    // Guarded by the gate.
    private Task _looking = Task.CompletedTask;

    private volatile RabbitMqAlarm? _alarm;

    /// <summary>The broker's reason; null when none is known.</summary>
    public string? Reason => _alarm?.Reason;

    /// <summary>Completes when it looks no more.</summary>
    public Task Ended
    {
        get
        {
            lock (_gate)
                return _looking;
        }
    }

    /// <summary>Looks until the alarm is over, if there is one and it is not looking already.</summary>
    /// <param name="exchange">An exchange that the sender may publish to.</param>
    public void Look(string exchange)
    {
        lock (_gate)
        {
            if (_looking.IsCompleted && !stopping.IsCancellationRequested)
                _looking = CallerContext.RunWithout(() => LookAsync(exchange));
        }
    }

    private async Task LookAsync(string exchange)
    {
        var opening = RabbitMqBus.ConnectAsync(options, "BatchKit alarm", stopping);
        try
        {
            var connection = await opening.ConfigureAwait(false);
            _alarm = RabbitMqAlarm.Of(connection);
            var channel = await connection.CreateChannelAsync(Confirming, stopping).ConfigureAwait(false);
            // The broker may take the first message of a connection before it blocks it. The second is confirmed at once, or when the alarm is over.
            for (var message = 0; message < 2; message++)
                await PublishAsync(channel, exchange).WaitAsync(stopping).ConfigureAwait(false);
        }
        catch (Exception)
        {
            // It only explains a failed send, which reports what else is wrong.
        }
        finally
        {
            _alarm = null;
            await RabbitMqEnd.EndAsync(opening, timeProvider).ConfigureAwait(false);
        }
    }

    // Never cancelled by a token; see RabbitMqTransport.
    private static Task PublishAsync(IChannel channel, string exchange) =>
        channel.BasicPublishAsync(exchange, Key, mandatory: false, new BasicProperties(), ReadOnlyMemory<byte>.Empty, CancellationToken.None).AsTask();
}

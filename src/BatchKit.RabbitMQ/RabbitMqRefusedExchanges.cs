using System.Collections.Concurrent;
using BatchKit.Transports;
using RabbitMQ.Client;

namespace BatchKit.RabbitMQ;

/// <summary>Exchanges of the application's messages that the broker has closed a channel over, because they do not exist, or the user may not write to them; and the topics that the user may not write to. Thread-safe.</summary>
/// <remarks>The channel has messages of other partitions under way, which are sent again when it closes. So a message for such an exchange or topic is published only when it is known that it closes no channel.</remarks>
internal sealed class RabbitMqRefusedExchanges(TimeSpan grace, TimeProvider timeProvider)
{
    private const int Most = 1000;

    // A right may be given at any time, and nothing but a publish shows that.
    private static readonly TimeSpan ForbiddenTime = TimeSpan.FromSeconds(30);

    private readonly ConcurrentDictionary<Place, Refusal> _refusals = new();

    // Exchanges that have taken a message.
    private readonly ConcurrentDictionary<string, bool> _known = new(StringComparer.Ordinal);

    /// <summary>The exchange has taken a message.</summary>
    public void Know(string exchange)
    {
        if (_known.ContainsKey(exchange))
            return;
        if (_known.Count >= Most)
            _known.Clear();
        _known.TryAdd(exchange, true);
    }

    /// <summary>Returns the broker's reason when it closed the channel over the message's exchange or topic; null when it did not.</summary>
    public static string? FindReason(Exception exception, RabbitMqMessage message) =>
        RabbitMqClosing.FindExchangeRefusal(exception, message.Exchange, out _) ?? RabbitMqClosing.FindTopicRefusal(exception, message.Exchange, message.RoutingKey);

    /// <summary>Remembers the exchange or the topic that the broker closed the channel over.</summary>
    /// <param name="exception">What the message failed with.</param>
    /// <param name="message">The message.</param>
    /// <param name="reached">See <see cref="OpenChannel.ReachedTimestamp"/>.</param>
    public void Add(Exception exception, RabbitMqMessage message, long reached)
    {
        if (_refusals.Count >= Most)
            _refusals.Clear();
        var now = timeProvider.GetTimestamp();
        if (RabbitMqClosing.FindExchangeRefusal(exception, message.Exchange, out var isForbidden) is { } reason)
        {
            // One that was there and is deleted may come back with its consumer. With any other name, each message would hold up its neighbours for the whole time.
            var since = isForbidden || _known.ContainsKey(message.Exchange) ? now : Math.Min(reached, now);
            _refusals.TryAdd(new Place(message.Exchange, Topic: null), new Refusal(reason, isForbidden, since));
        }
        else if (RabbitMqClosing.FindTopicRefusal(exception, message.Exchange, message.RoutingKey) is { } topicReason)
        {
            _refusals.TryAdd(new Place(message.Exchange, message.RoutingKey), new Refusal(topicReason, IsForbidden: true, now));
        }
    }

    /// <summary>Completes when a message may be published to the exchange.</summary>
    /// <exception cref="MessageRefusedException">The broker does not take it.</exception>
    /// <exception cref="IOException">The exchange does not exist yet; whoever declares it may still be starting.</exception>
    public ValueTask CheckAsync(IConnection connection, RabbitMqMessage message, CancellationToken cancellationToken)
    {
        if (_refusals.IsEmpty)
            return default;
        var place = new Place(message.Exchange, Topic: null);
        return _refusals.TryGetValue(place, out var refusal) || _refusals.TryGetValue(place = new Place(message.Exchange, message.RoutingKey), out refusal)
            ? new ValueTask(CheckAsync(connection, place, refusal, cancellationToken)) : default;
    }

    private async Task CheckAsync(IConnection connection, Place place, Refusal refusal, CancellationToken cancellationToken)
    {
        var age = timeProvider.GetElapsedTime(refusal.Since);
        if (refusal.IsForbidden ? age >= ForbiddenTime : !await RabbitMqTopology.IsExchangeMissingAsync(connection, place.Exchange, timeProvider, cancellationToken).ConfigureAwait(false))
        {
            _refusals.TryRemove(place, out _);
            return;
        }

        throw refusal.IsForbidden || age >= grace
            ? new MessageRefusedException($"The broker takes no message for exchange '{place.Exchange}': {refusal.Reason}")
            : new IOException($"The broker takes no message for exchange '{place.Exchange}' yet: {refusal.Reason}");
    }

    /// <summary>An exchange, or one topic of it.</summary>
    private readonly record struct Place(string Exchange, string? Topic);

    /// <param name="Reason">The broker's reason.</param>
    /// <param name="IsForbidden">True when the user may not write to the exchange.</param>
    /// <param name="Since">The begin of its time.</param>
    private sealed record Refusal(string Reason, bool IsForbidden, long Since);
}

using System.Collections.Concurrent;
using BatchKit.Transports;
using RabbitMQ.Client;

namespace BatchKit.RabbitMQ;

/// <summary>Exchanges of the application's messages that the broker has closed a channel over, because they do not exist, or the user may not write to them. Thread-safe.</summary>
/// <remarks>The channel has messages of other partitions under way, which are sent again when it closes. So a message for such an exchange is published only when it is known that it closes no channel.</remarks>
internal sealed class RabbitMqRefusedExchanges(TimeSpan grace, TimeProvider timeProvider)
{
    private const int Most = 1000;

    // A right may be given at any time, and nothing but a publish shows that.
    private static readonly TimeSpan ForbiddenTime = TimeSpan.FromSeconds(30);

    private readonly ConcurrentDictionary<string, Refusal> _refusals = new(StringComparer.Ordinal);

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

    /// <summary>Remembers an exchange.</summary>
    /// <param name="exchange">Its name.</param>
    /// <param name="reason">The broker's reason.</param>
    /// <param name="isForbidden">True when the user may not write to it; false when it does not exist.</param>
    /// <param name="reached">See <see cref="OpenChannel.ReachedTimestamp"/>.</param>
    public void Add(string exchange, string reason, bool isForbidden, long reached)
    {
        if (_refusals.Count >= Most)
            _refusals.Clear();
        // One that was there and is deleted may come back with its consumer. With any other name, each message would hold up its neighbours for the whole time.
        var now = timeProvider.GetTimestamp();
        var since = isForbidden || _known.ContainsKey(exchange) ? now : Math.Min(reached, now);
        _refusals.TryAdd(exchange, new Refusal(reason, isForbidden, since));
    }

    /// <summary>Completes when a message may be published to the exchange.</summary>
    /// <exception cref="MessageRefusedException">The broker does not take it.</exception>
    /// <exception cref="IOException">The exchange does not exist yet; whoever declares it may still be starting.</exception>
    public ValueTask CheckAsync(IConnection connection, string exchange, CancellationToken cancellationToken) =>
        _refusals.IsEmpty || !_refusals.TryGetValue(exchange, out var refusal) ? default : new ValueTask(CheckAsync(connection, exchange, refusal, cancellationToken));

    private async Task CheckAsync(IConnection connection, string exchange, Refusal refusal, CancellationToken cancellationToken)
    {
        var age = timeProvider.GetElapsedTime(refusal.Since);
        if (refusal.IsForbidden ? age >= ForbiddenTime : !await RabbitMqTopology.IsExchangeMissingAsync(connection, exchange, timeProvider, cancellationToken).ConfigureAwait(false))
        {
            _refusals.TryRemove(exchange, out _);
            return;
        }

        throw refusal.IsForbidden || age >= grace
            ? new MessageRefusedException($"The broker takes no message for exchange '{exchange}': {refusal.Reason}")
            : new IOException($"The broker takes no message for exchange '{exchange}' yet: {refusal.Reason}");
    }

    /// <param name="Reason">The broker's reason.</param>
    /// <param name="IsForbidden">True when the user may not write to the exchange.</param>
    /// <param name="Since">The begin of its time.</param>
    private sealed record Refusal(string Reason, bool IsForbidden, long Since);
}

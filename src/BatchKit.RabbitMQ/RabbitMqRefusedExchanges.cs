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

    /// <summary>Remembers an exchange.</summary>
    public void Add(string exchange, string reason, bool isForbidden)
    {
        if (_refusals.Count >= Most)
            _refusals.Clear();
        _refusals.TryAdd(exchange, new Refusal(reason, isForbidden, timeProvider.GetTimestamp()));
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

    private sealed record Refusal(string Reason, bool IsForbidden, long Since);
}

using System.Buffers;
using System.Threading.Channels;
using BatchKit.Transports;
using NATS.Client.Core;

namespace BatchKit.Nats;

/// <summary>Receives the frames of several subjects in the order in which the server sends them. The client's own subscriptions have a queue each, so that the order between them is lost.</summary>
internal sealed class CoreSubscription : NatsSubBase
{
    private readonly ChannelWriter<byte[]> _queue;
    private readonly Action _dropped;

    private CoreSubscription(INatsConnection connection, string subject, ChannelWriter<byte[]> queue, Action dropped)
        : base(connection, connection.SubscriptionManager, subject, queueGroup: null, opts: null) => (_queue, _dropped) = (queue, dropped);

    /// <summary>Receives until the token ends it, or the server refuses a subscription.</summary>
    /// <exception cref="IOException">The server refuses one: at the start, after a reconnect, or because its settings have changed.</exception>
    public static async Task ReceiveAsync(
        NatsLink link, string[] subjects, FrameReceiver frames, ReceiverLifetime lifetime, int maxWaiting, Action begin, Action dropped, CancellationToken ending)
    {
        var queue = Channel.CreateBounded<byte[]>(new BoundedChannelOptions(maxWaiting) { SingleReader = true });
        var subscriptions = Array.ConvertAll(subjects, subject => new CoreSubscription(link.Connection, subject, queue.Writer, dropped));
        var (hasBegun, isRefused) = (false, false);
        link.ServerFailed += EndWhenRefused;
        try
        {
            foreach (var subscription in subscriptions)
                await link.Connection.AddSubAsync(subscription, ending).ConfigureAwait(false);
            await link.ConfirmAsync(ending).ConfigureAwait(false);
            Volatile.Write(ref hasBegun, true);
            if (!Volatile.Read(ref isRefused))
                begin();
            await foreach (var frame in queue.Reader.ReadAllAsync(ending).ConfigureAwait(false))
                await lifetime.WatchAsync(frames.ReceiveAsync(frame, ending)).ConfigureAwait(false);
        }
        finally
        {
            link.ServerFailed -= EndWhenRefused;
            foreach (var subscription in subscriptions)
                await subscription.DisposeAsync().ConfigureAwait(false);
        }

        void EndWhenRefused(object? sender, NatsServerErrorEventArgs change)
        {
            // The second one names no subject. It may come late, and then be about another subscription of the application's connection.
            if (!Array.Exists(subjects, subject => change.Error.Contains($"Subscription to \"{subject}\"", StringComparison.Ordinal))
                && ((Volatile.Read(ref hasBegun) && !link.IsOurs) || !change.Error.StartsWith("maximum subscriptions", StringComparison.OrdinalIgnoreCase)))
                return;
            Volatile.Write(ref isRefused, true);
            queue.Writer.TryComplete(new IOException($"{link.Target} refused a subscription: {change.Error}."));
        }
    }

    /// <inheritdoc/>
    protected override ValueTask ReceiveInternalAsync(string subject, string? replyTo, ReadOnlySequence<byte>? headersBuffer, ReadOnlySequence<byte> payloadBuffer)
    {
        if (!_queue.TryWrite(payloadBuffer.ToArray()))
            _dropped();
        return default;
    }

    /// <inheritdoc/>
    protected override void TryComplete() => _queue.TryComplete();
}

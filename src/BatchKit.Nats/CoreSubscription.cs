using System.Buffers;
using System.Runtime.CompilerServices;
using System.Threading.Channels;
using BatchKit.Transports;
using NATS.Client.Core;

namespace BatchKit.Nats;

/// <summary>Receives the frames of several subjects in the order in which the server sends them. The client's own subscriptions have a queue each, so that the order between them is lost.</summary>
internal sealed class CoreSubscription : NatsSubBase
{
    // Frames may be large: so many that wait would fill the memory.
    private const int MaxWaitingBytes = 64 * 1024 * 1024;

    private readonly ChannelWriter<byte[]> _queue;
    private readonly StrongBox<long> _waitingBytes;
    private readonly int _maxWaiting;
    private readonly Action<string, int> _dropped;

    private CoreSubscription(INatsConnection connection, string subject, ChannelWriter<byte[]> queue, StrongBox<long> waitingBytes, int maxWaiting, Action<string, int> dropped)
        : base(connection, connection.SubscriptionManager, subject, queueGroup: null, opts: null) =>
        (_queue, _waitingBytes, _maxWaiting, _dropped) = (queue, waitingBytes, maxWaiting, dropped);

    /// <summary>Receives until the token ends it, or the server refuses a subscription.</summary>
    /// <exception cref="IOException">The server refuses one: at the start, after a reconnect, or because its settings have changed.</exception>
    public static async Task ReceiveAsync(
        NatsLink link, string[] subjects, FrameReceiver frames, ReceiverLifetime lifetime, int maxWaiting, Action begin, Action<string, int> dropped, CancellationToken ending)
    {
        var queue = Channel.CreateBounded<byte[]>(new BoundedChannelOptions(maxWaiting) { SingleReader = true });
        var waitingBytes = new StrongBox<long>();
        var subscriptions = Array.ConvertAll(subjects, subject => new CoreSubscription(link.Connection, subject, queue.Writer, waitingBytes, maxWaiting, dropped));
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
            {
                Interlocked.Add(ref waitingBytes.Value, -frame.Length);
                await lifetime.WatchAsync(frames.ReceiveAsync(frame, ending)).ConfigureAwait(false);
            }
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
        // One frame may wait, whatever its size.
        var bytes = (int)payloadBuffer.Length;
        var isTooMuch = Interlocked.Add(ref _waitingBytes.Value, bytes) is var all && all > MaxWaitingBytes && all > bytes;
        if (!isTooMuch && _queue.TryWrite(payloadBuffer.ToArray()))
            return default;
        Interlocked.Add(ref _waitingBytes.Value, -bytes);
        if (isTooMuch)
            _dropped("the queue's bytes", MaxWaitingBytes);
        else
            _dropped($"{nameof(NatsOptions)}.{nameof(NatsOptions.MaxWaitingFrames)}", _maxWaiting);
        return default;
    }

    /// <inheritdoc/>
    protected override void TryComplete() => _queue.TryComplete();
}

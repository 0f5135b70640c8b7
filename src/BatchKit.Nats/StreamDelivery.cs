using BatchKit.Transports;
using NATS.Client.Core;
using NATS.Client.JetStream;

namespace BatchKit.Nats;

/// <summary>Hands the frames of a node's consumer on, one after another, and acknowledges each when the next hop has it.</summary>
internal sealed class StreamDelivery(FrameReceiver frames, string[] subjects, Func<CancellationToken, ValueTask<bool>> isHeld, ReceiverLifetime lifetime, TimeProvider timeProvider)
{
    // What the server needs to hear while a frame is in hand.
    private static readonly TimeSpan ProgressInterval = NatsTopology.AckWait / 3;

    private static readonly TimeSpan AnswerLimit = TimeSpan.FromSeconds(1);

    private const int NotFound = 404;

    // The receiver no longer asks for frames when this is over, so that the frame waits for its successor.
    private static readonly AckOpts Back = new() { NakDelay = TimeSpan.FromSeconds(1), DoubleAck = true };

    /// <summary>Receives until a token ends it, or the server fails.</summary>
    /// <param name="consumer">The node's consumer.</param>
    /// <param name="ending">Takes no more frames.</param>
    /// <param name="abandoning">Gives the frame in hand back.</param>
    public async Task RunAsync(INatsJSConsumer consumer, CancellationToken ending, CancellationToken abandoning)
    {
        var requests = new NatsJSConsumeOpts
        {
            MaxMsgs = 1,
            // The request of a process that is frozen ends soon, so that the server sends nothing to it.
            Expires = TimeSpan.FromSeconds(2),
            IdleHeartbeat = TimeSpan.FromSeconds(1),
            NotificationHandler = (_, cancellationToken) => ThrowIfGoneAsync(consumer, cancellationToken),
        };
        await foreach (var message in consumer.ConsumeAsync(NatsRawSerializer<byte[]>.Default, requests, ending).ConfigureAwait(false))
        {
            // A frozen process may go on with a number that another one has by now.
            if (!await IsHeldAsync(message, abandoning).ConfigureAwait(false))
                return;

            // A server before 2.10 sends the frames of all nodes.
            if (Array.IndexOf(subjects, message.Subject) >= 0 && !NatsTopology.IsFirst(message.Headers))
                await HandOnAsync(message, abandoning).ConfigureAwait(false);
            await message.AckAsync(cancellationToken: abandoning).ConfigureAwait(false);
        }
    }

    // The client asks for ever when no one answers. What this throws ends the enumeration above.
    private static async Task ThrowIfGoneAsync(INatsJSConsumer consumer, CancellationToken cancellationToken)
    {
        try
        {
            await consumer.RefreshAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (Exception exception) when (exception is not NatsJSApiException { Error.Code: NotFound })
        {
            // The server may be away for a moment, and the client asks again.
        }
    }

    private async ValueTask<bool> IsHeldAsync(INatsJSMsg<byte[]> message, CancellationToken abandoning)
    {
        var holds = false;
        try
        {
            return holds = await isHeld(abandoning).ConfigureAwait(false);
        }
        finally
        {
            if (!holds)
                await GiveBackAsync(message).ConfigureAwait(false);
        }
    }

    private async Task HandOnAsync(INatsJSMsg<byte[]> message, CancellationToken abandoning)
    {
        var receiving = lifetime.WatchAsync(frames.ReceiveAsync(message.Data ?? [], abandoning)).AsTask();
        try
        {
            while (await LastsAsync(receiving).ConfigureAwait(false))
                await message.AckProgressAsync(cancellationToken: abandoning).ConfigureAwait(false);
            await receiving.ConfigureAwait(false);
        }
        catch
        {
            await receiving.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            await GiveBackAsync(message).ConfigureAwait(false);
            throw;
        }
    }

    // If the server does not hear it, it delivers the frame again after AckWait.
    private async Task GiveBackAsync(INatsJSMsg<byte[]> message)
    {
        using var limit = new CancellationTokenSource(AnswerLimit, timeProvider);
        await message.NakAsync(Back, limit.Token).AsTask().ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    private async Task<bool> LastsAsync(Task task)
    {
        await task.WaitAsync(ProgressInterval, timeProvider, CancellationToken.None).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        return !task.IsCompleted;
    }
}

using BatchKit.Transports;
using MassTransit;
using Microsoft.Extensions.Logging;

namespace BatchKit.MassTransit;

/// <summary>Hands one frame after the other to the <see cref="BatchReceiver"/>; ending without an error acknowledges it to the bus.</summary>
internal sealed class EnvelopeConsumer(BatchReceiver receiver, BusConnection connection, string queue, ILogger logger, CancellationToken stopping)
    : IDisposable
{
    // After a lost connection the frames of the old channel and of the new one may come side by side.
    private readonly SemaphoreSlim _turn = new(1, 1);

    public async Task ConsumeAsync(ConsumeContext<BatchEnvelope> context)
    {
        await _turn.WaitAsync(stopping).ConfigureAwait(false);
        try
        {
            if (connection.Topology.IsOurs(context))
                await receiver.ReceiveAsync(context.Message.Frame, stopping).ConfigureAwait(false);
        }
        catch (FrameFormatException exception)
        {
            // It can never be read: taken off the queue, or it would come back for ever.
            Log.FrameRejected(logger, exception, context.Message.Bytes.Length, queue);
        }
        catch (Exception exception) when (!stopping.IsCancellationRequested)
        {
            Log.FrameFailed(logger, exception, queue);
            throw;
        }
        finally
        {
            _turn.Release();
            connection.Complete();
        }
    }

    public void Dispose() => _turn.Dispose();
}

using System.Buffers;
using BatchKit.Mqtt.Packets;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Mqtt.Receiving;

/// <summary>Messages that each carry a whole frame.</summary>
internal sealed class FrameArrivals(ILogger logger) : IArrivals
{
    private readonly List<(byte[] Array, int Length)> _frames = [];

    public bool IsEmpty => _frames.Count == 0;

    public void Add(in ReceivedPublish publish)
    {
        var array = ArrayPool<byte>.Shared.Rent(publish.Payload.Length);
        publish.Payload.CopyTo(array);
        _frames.Add((array, publish.Payload.Length));
    }

    public async ValueTask HandOnAsync(BatchReceiver receiver, CancellationToken cancellationToken)
    {
        try
        {
            foreach (var (array, length) in _frames)
                await HandOnAsync(receiver, array.AsMemory(0, length), cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            Clear();
        }
    }

    public void Clear()
    {
        foreach (var (array, _) in _frames)
            ArrayPool<byte>.Shared.Return(array);
        _frames.Clear();
    }

    private async ValueTask HandOnAsync(BatchReceiver receiver, ReadOnlyMemory<byte> frame, CancellationToken cancellationToken)
    {
        try
        {
            await receiver.ReceiveAsync(frame, cancellationToken).ConfigureAwait(false);
        }
        catch (FrameFormatException exception)
        {
            // It never can be handed on, and unacknowledged it would come again for ever. The receiver has counted it.
            Log.FrameDropped(logger, exception, frame.Length);
        }
    }
}

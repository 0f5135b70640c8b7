using System.Buffers;
using BatchKit.Transports;

namespace BatchKit.MassTransit;

/// <summary>Encodes batches into an array of the frame's exact size, which is what MassTransit's transports take.</summary>
internal sealed class FrameBuffer : IBufferWriter<byte>
{
    private byte[] _rented = [];
    private int _written;

    public static byte[] Encode(ReadOnlySpan<MessageBatch> batches)
    {
        var buffer = new FrameBuffer();
        try
        {
            FrameWriter.Write(buffer, batches);
            var frame = GC.AllocateUninitializedArray<byte>(buffer._written);
            buffer._rented.AsSpan(0, buffer._written).CopyTo(frame);
            return frame;
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(buffer._rented);
        }
    }

    public void Advance(int count) => _written += count;

    public Memory<byte> GetMemory(int sizeHint = 0)
    {
        Reserve(sizeHint);
        return _rented.AsMemory(_written);
    }

    public Span<byte> GetSpan(int sizeHint = 0)
    {
        Reserve(sizeHint);
        return _rented.AsSpan(_written);
    }

    private void Reserve(int sizeHint)
    {
        if (_rented.Length - _written >= Math.Max(sizeHint, 1))
            return;
        var larger = ArrayPool<byte>.Shared.Rent(checked(_written + Math.Max(sizeHint, 256)));
        _rented.AsSpan(0, _written).CopyTo(larger);
        ArrayPool<byte>.Shared.Return(_rented);
        _rented = larger;
    }
}

using System.Buffers;

namespace BatchKit.Transports;

/// <summary>An encoded frame in rented memory, for transports that publish it as one block.</summary>
/// <remarks>The maker owns it: dispose it once nobody reads <see cref="Bytes"/> any more. One thread at a time.</remarks>
public sealed class PooledFrame : IDisposable
{
    private byte[] _array;
    private int _length;

    private PooledFrame(byte[] array, int length)
    {
        _array = array;
        _length = length;
    }

    /// <summary>The frame, valid until it is disposed; empty afterwards.</summary>
    public ReadOnlyMemory<byte> Bytes => _array.AsMemory(0, _length);

    /// <summary>Encodes batches, as <see cref="FrameWriter.Write(IBufferWriter{byte}, ReadOnlySpan{MessageBatch})"/> does.</summary>
    /// <param name="batches">At least one; all of one producer, with rising numbers.</param>
    /// <inheritdoc cref="FrameWriter.Write(IBufferWriter{byte}, ReadOnlySpan{MessageBatch})" path="/exception"/>
    public static PooledFrame Encode(ReadOnlySpan<MessageBatch> batches)
    {
        var array = ArrayPool<byte>.Shared.Rent(FrameWriter.Measure(batches));
        try
        {
            return new PooledFrame(array, FrameWriter.Write(array, batches));
        }
        catch
        {
            ArrayPool<byte>.Shared.Return(array);
            throw;
        }
    }

    /// <summary>Gives the memory back; a second time it does nothing.</summary>
    public void Dispose()
    {
        if (_array.Length > 0)
            ArrayPool<byte>.Shared.Return(_array);
        _array = [];
        _length = 0;
    }
}

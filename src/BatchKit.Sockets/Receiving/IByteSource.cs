using System.Net.Sockets;

namespace BatchKit.Broadcast.Receiving;

/// <summary>Reads a client's bytes.</summary>
/// <remarks>A broken connection throws <see cref="IOException"/>, <see cref="System.Net.Sockets.SocketException"/> or <see cref="ObjectDisposedException"/>.</remarks>
internal interface IByteSource
{
    /// <summary>What <see cref="ReadAsync"/> returns when there is nothing to read.</summary>
    const int NothingYet = -1;

    /// <summary>Completes when there may be something to read. Needs no buffer.</summary>
    /// <returns>A result without meaning: sockets and streams have cached tasks with a result.</returns>
    ValueTask<int> WaitAsync();

    /// <summary>Reads what there is.</summary>
    /// <returns>The number of bytes; 0 at the end of the input; or <see cref="NothingYet"/>.</returns>
    ValueTask<int> ReadAsync(Memory<byte> buffer);
}

/// <summary>A plain TCP socket in non-blocking mode, read directly.</summary>
internal sealed class SocketSource(Socket socket) : IByteSource
{
    public ValueTask<int> WaitAsync() => socket.ReceiveAsync(Memory<byte>.Empty, SocketFlags.None);

    public ValueTask<int> ReadAsync(Memory<byte> buffer)
    {
        var read = socket.Receive(buffer.Span, SocketFlags.None, out var error);
        return error switch
        {
            SocketError.Success => ValueTask.FromResult(read),
            SocketError.WouldBlock => ValueTask.FromResult(IByteSource.NothingYet),
            _ => throw new SocketException((int)error),
        };
    }
}

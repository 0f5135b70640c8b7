using System.Net.Sockets;

namespace BatchKit.Broadcast.Receiving;

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

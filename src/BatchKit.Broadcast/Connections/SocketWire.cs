using System.Net.Sockets;

namespace BatchKit.Broadcast.Connections;

/// <summary>A plain TCP socket, written to directly.</summary>
internal sealed class SocketWire : IWire
{
    private readonly Socket _socket;

    public SocketWire(Socket socket)
    {
        // Without this a synchronous send waits for the client to read.
        socket.Blocking = false;
        _socket = socket;
    }

    public int TryWrite(ReadOnlySpan<byte> bytes)
    {
        if (bytes.IsEmpty)
            return 0;
        var sent = _socket.Send(bytes, SocketFlags.None, out var error);
        return error switch
        {
            SocketError.Success => sent,
            SocketError.WouldBlock or SocketError.NoBufferSpaceAvailable => 0,
            _ => throw new SocketException((int)error),
        };
    }

    public async ValueTask WriteAsync(ReadOnlyMemory<byte> bytes)
    {
        while (!bytes.IsEmpty)
            bytes = bytes[await _socket.SendAsync(bytes, SocketFlags.None).ConfigureAwait(false)..];
    }

    public ValueTask FinishAsync()
    {
        _socket.Shutdown(SocketShutdown.Send);
        return default;
    }

    public void Abort() => _socket.Dispose();
}

using System.Net;
using System.Net.Sockets;

namespace BatchKit.Benchmarks.EchoServers;

/// <summary>Raw sockets: each record is sent back by an awaited send of its own.</summary>
internal sealed class SendEachServer : IEchoServer
{
    private const int BufferBytes = 64 * 1024;

    private readonly Socket _listener = new(SocketType.Stream, ProtocolType.Tcp);
    private Task _accepting = Task.CompletedTask;

    public Task<int> StartAsync()
    {
        _listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        _listener.Listen();
        _accepting = AcceptAsync();
        return Task.FromResult(((IPEndPoint)_listener.LocalEndPoint!).Port);
    }

    public async ValueTask DisposeAsync()
    {
        _listener.Dispose();
        await _accepting;
    }

    private async Task AcceptAsync()
    {
        try
        {
            while (true)
                _ = EchoAsync(await _listener.AcceptAsync());
        }
        catch (SocketException)
        {
            // The listener is closed.
        }
    }

    private static async Task EchoAsync(Socket socket)
    {
        using var owned = socket;
        socket.NoDelay = true;
        var buffer = new byte[BufferBytes];
        var length = 0;
        try
        {
            while (await socket.ReceiveAsync(buffer.AsMemory(length)) is > 0 and var received)
            {
                length += received;
                var start = 0;
                for (int end; (end = Records.EndOfFirst(buffer.AsSpan(start, length - start))) > 0; start += end)
                    await socket.SendAsync(buffer.AsMemory(start, end));
                buffer.AsSpan(start, length - start).CopyTo(buffer);
                length -= start;
            }
        }
        catch (SocketException)
        {
            // The load is gone.
        }
    }
}

using System.Net;
using System.Net.Sockets;
using System.Text;

namespace BatchKit.SignalR.Tests.Support;

/// <summary>A client over a plain socket: it sees each WebSocket message as it is on the wire, or reads nothing at all.</summary>
public sealed class RawClient : IDisposable
{
    private const string Handshake = "{\"protocol\":\"json\",\"version\":1}\u001e";

    private readonly Socket _socket = new(SocketType.Stream, ProtocolType.Tcp) { ReceiveBufferSize = 4096 };
    private readonly Queue<byte> _readAhead = new();

    private RawClient()
    {
    }

    /// <summary>Connects, and reads the handshake's answers.</summary>
    public static async Task<RawClient> ConnectAsync(Uri address)
    {
        var client = new RawClient();
        await client._socket.ConnectAsync(IPAddress.Loopback, address.Port).WaitAsync(Deadline.Time);
        var request = $"GET {address.PathAndQuery} HTTP/1.1\r\nHost: {address.Authority}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
        await client._socket.SendAsync(Encoding.ASCII.GetBytes(request)).WithinDeadline();
        var answer = string.Empty;
        while (!answer.EndsWith("\r\n\r\n", StringComparison.Ordinal))
            answer += (char)(await client.ReadAsync(1))[0];
        await client.SendAsync(Handshake);
        await client.ReadMessageAsync();
        return client;
    }

    /// <summary>Sends one text message. Its mask is zero.</summary>
    public Task SendAsync(string text) =>
        _socket.SendAsync((byte[])[0x81, (byte)(0x80 | text.Length), 0, 0, 0, 0, .. Encoding.UTF8.GetBytes(text)]).WithinDeadline();

    /// <summary>Reads bytes from the socket, and keeps them for the messages that are read later.</summary>
    public async Task ReadAheadAsync(int bytes)
    {
        foreach (var next in await ReceiveAsync(new byte[bytes], read: 0))
            _readAhead.Enqueue(next);
    }

    /// <summary>Reads one WebSocket message, and returns its records.</summary>
    public async Task<string[]> ReadMessageAsync()
    {
        var message = new List<byte>();
        for (var isLast = false; !isLast;)
        {
            var head = await ReadAsync(2);
            isLast = (head[0] & 0x80) != 0;
            var length = head[1] switch
            {
                126 => await ReadLengthAsync(2),
                127 => await ReadLengthAsync(8),
                var small => small,
            };
            message.AddRange(await ReadAsync(length));
        }

        return Encoding.UTF8.GetString([.. message]).Split('\u001e', StringSplitOptions.RemoveEmptyEntries);
    }

    public void Dispose() => _socket.Dispose();

    private async Task<int> ReadLengthAsync(int bytes) => (await ReadAsync(bytes)).Aggregate(0, static (length, next) => (length << 8) | next);

    private Task<byte[]> ReadAsync(int bytes)
    {
        var buffer = new byte[bytes];
        var read = 0;
        while (read < bytes && _readAhead.TryDequeue(out var next))
            buffer[read++] = next;
        return ReceiveAsync(buffer, read);
    }

    private async Task<byte[]> ReceiveAsync(byte[] buffer, int read)
    {
        while (read < buffer.Length)
        {
            var count = await _socket.ReceiveAsync(buffer.AsMemory(read)).WithinDeadline();
            read += count > 0 ? count : throw new IOException("The server closed the connection.");
        }

        return buffer;
    }
}

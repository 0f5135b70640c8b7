using System.Buffers.Binary;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>A WebSocket client that sends any bytes and shows every byte that it gets.</summary>
internal sealed class RawClient : IDisposable
{
    private readonly Stream _stream;
    private readonly List<byte> _received = [];

    private RawClient(Socket socket, Stream stream)
    {
        Socket = socket;
        _stream = stream;
    }

    public Socket Socket { get; }

    /// <summary>The response's status line and headers.</summary>
    public string Head { get; private set; } = "";

    /// <summary>Connects and upgrades; the server's first ping is not answered yet.</summary>
    public static async Task<RawClient> ConnectAsync(EndPoint endPoint, string headers = "", Func<Stream, Task<Stream>>? wrap = null, string host = "localhost")
    {
        var client = await OpenAsync(endPoint, wrap);
        await client.SendAsync(RequestFor("/ws", host, headers));
        await client.ReadHeadAsync();
        return client;
    }

    /// <summary>Connects, upgrades and answers the ping, so that the server writes directly if it can.</summary>
    public static async Task<RawClient> ConnectAndAnswerAsync(EndPoint endPoint, string headers = "")
    {
        var client = await ConnectAsync(endPoint, headers);
        var ping = await client.ReadFrameAsync();
        Assert.Equal(RawFrame.Ping, ping.Opcode);
        await client.SendAsync(RawFrame.Masked(RawFrame.Final | RawFrame.Pong, ping.Payload));
        return client;
    }

    /// <summary>Connects and upgrades; a client that is to be written to directly waits until it is.</summary>
    public static async Task<RawClient> ConnectAsync(WebSocketHost host, bool isDirect)
    {
        if (!isDirect)
            return await ConnectAsync(host.EndPoint);
        var client = await ConnectAndAnswerAsync(host.EndPoint);
        await host.Log.NextAsync("goes directly to its socket").WithinDeadline();
        return client;
    }

    public static async Task<RawClient> OpenAsync(EndPoint endPoint, Func<Stream, Task<Stream>>? wrap = null)
    {
        var protocol = endPoint is UnixDomainSocketEndPoint ? ProtocolType.Unspecified : ProtocolType.Tcp;
        var socket = new Socket(endPoint.AddressFamily, SocketType.Stream, protocol);
        if (protocol == ProtocolType.Tcp)
            socket.NoDelay = true;
        await socket.ConnectAsync(endPoint).WithinDeadline();
        Stream stream = new NetworkStream(socket, ownsSocket: true);
        return new RawClient(socket, wrap is null ? stream : await wrap(stream));
    }

    public static byte[] RequestFor(string path, string host, string headers = "") => Encoding.ASCII.GetBytes(
        $"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        + $"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{headers}\r\n");

    public Task SendAsync(ReadOnlyMemory<byte> bytes) => _stream.WriteAsync(bytes).WithinDeadline();

    public Task SendTextAsync(string text) => SendAsync(RawFrame.Masked(RawFrame.Final | RawFrame.Text, Encoding.UTF8.GetBytes(text)));

    public async Task ReadHeadAsync()
    {
        int end;
        while ((end = Encoding.Latin1.GetString([.. _received]).IndexOf("\r\n\r\n", StringComparison.Ordinal)) < 0)
            Assert.True(await TryReceiveAsync(), "The connection ended within the response.");
        Head = Encoding.Latin1.GetString([.. _received[..end]]);
        _received.RemoveRange(0, end + 4);
    }

    /// <summary>Reads one frame, which must be unmasked.</summary>
    public async Task<RawFrame> ReadFrameAsync() =>
        await TryReadFrameAsync() ?? throw new InvalidOperationException("The connection has ended.");

    /// <summary>Reads one frame; null when the connection has ended.</summary>
    public async Task<RawFrame?> TryReadFrameAsync()
    {
        RawFrame? frame;
        while (!RawFrame.TryTake(_received, out frame))
        {
            if (!await TryReceiveAsync())
                return null;
        }

        return frame;
    }

    /// <summary>Reads frames up to the next that is no ping.</summary>
    public async Task<RawFrame> ReadMessageAsync()
    {
        while (true)
        {
            var frame = await ReadFrameAsync();
            if (frame.Opcode != RawFrame.Ping)
                return frame;
        }
    }

    /// <summary>Reads a text, which must be one frame.</summary>
    public async Task<string> ReadTextAsync()
    {
        var frame = await ReadMessageAsync();
        Assert.Equal(RawFrame.Final | RawFrame.Text, frame.FirstByte);
        return Encoding.UTF8.GetString(frame.Payload);
    }

    /// <summary>Reads up to a close frame.</summary>
    /// <returns>Its code; 1005 when it has none.</returns>
    public async Task<int> ReadCloseAsync()
    {
        RawFrame frame;
        do
            frame = await ReadFrameAsync();
        while (frame.Opcode != RawFrame.Close);
        return frame.Payload.Length == 0 ? 1005 : BinaryPrimitives.ReadUInt16BigEndian(frame.Payload);
    }

    /// <summary>Reads up to the end of the connection, whatever comes.</summary>
    public async Task ReadToEndAsync()
    {
        while (await TryReceiveAsync())
            _received.Clear();
    }

    public void Dispose() => _stream.Dispose();

    private async Task<bool> TryReceiveAsync()
    {
        var buffer = new byte[64 * 1024];
        try
        {
            var read = await _stream.ReadAsync(buffer).WithinDeadline();
            _received.AddRange(buffer.AsSpan(0, read));
            return read > 0;
        }
        catch (IOException)
        {
            return false;
        }
    }
}

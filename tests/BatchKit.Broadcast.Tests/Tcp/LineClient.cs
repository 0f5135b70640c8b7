using System.Net;
using System.Net.Sockets;
using System.Text;
using BatchKit.Broadcast.Tests.Support;

namespace BatchKit.Broadcast.Tests.Tcp;

/// <summary>A client that sends and reads text. Every wait has a deadline.</summary>
internal sealed class LineClient : IDisposable
{
    private readonly StreamReader _reader;

    public LineClient(Stream stream, Socket socket)
    {
        Stream = stream;
        Socket = socket;
        _reader = new StreamReader(stream, Encoding.UTF8);
    }

    public Stream Stream { get; }

    public Socket Socket { get; }

    /// <param name="server">The server.</param>
    /// <param name="from">The address to come from; any when null.</param>
    /// <param name="isSmall">As <see cref="SmallBuffers.Set"/> says.</param>
    public static async Task<LineClient> ConnectAsync(IPEndPoint server, IPAddress? from = null, bool isSmall = false)
    {
        var socket = new Socket(server.AddressFamily, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        if (isSmall)
            SmallBuffers.Set(socket);
        if (from is not null)
            socket.Bind(new IPEndPoint(from, 0));
        await socket.ConnectAsync(server).WithinDeadline();
        return new LineClient(new NetworkStream(socket, ownsSocket: true), socket);
    }

    public Task SendAsync(string text) => SendAsync(Encoding.UTF8.GetBytes(text));

    public Task SendAsync(ReadOnlyMemory<byte> bytes) => Stream.WriteAsync(bytes).WithinDeadline();

    /// <summary>Reads a line; null at the end.</summary>
    public Task<string?> ReadLineAsync() => _reader.ReadLineAsync().WithinDeadline();

    public async Task<string[]> ReadLinesAsync(int count)
    {
        var lines = new string[count];
        for (var line = 0; line < count; line++)
            lines[line] = await ReadLineAsync() ?? throw new EndOfStreamException();
        return lines;
    }

    public Task<string> ReadToEndAsync() => _reader.ReadToEndAsync().WithinDeadline();

    /// <summary>Ends the sending side.</summary>
    public void Finish() => Socket.Shutdown(SocketShutdown.Send);

    /// <summary>Breaks the connection: the server sees a reset.</summary>
    public void Reset()
    {
        Socket.LingerState = new LingerOption(enable: true, seconds: 0);
        Socket.Close();
    }

    public void Dispose()
    {
        _reader.Dispose();
        Socket.Dispose();
    }
}

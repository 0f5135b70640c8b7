using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;
using System.Text;
using BatchKit.Broadcast.Tests.Support;

namespace BatchKit.Broadcast.Tests.Clients;

/// <summary>A client of any protocol on a real socket, read asynchronously; it can stop reading and go on.</summary>
internal sealed class TestClient : IAsyncDisposable
{
    private readonly Socket _socket;
    private readonly IClientDecoder _decoder;
    private readonly Action<string> _take;
    private readonly SemaphoreSlim _sending = new(1, 1);
    private readonly List<byte> _text = [];
    private readonly List<byte> _answer = [];
    private volatile TaskCompletionSource? _pause;

    private TestClient(Socket socket, IClientDecoder decoder, Action<string> take)
    {
        _socket = socket;
        _decoder = decoder;
        _take = take;
        Ended = Task.CompletedTask;
    }

    /// <summary>Completes when the server ended the connection in order, with nothing cut off; fails when it was reset, or said what its protocol forbids.</summary>
    public Task Ended { get; private set; }

    /// <summary>The code of the WebSocket close frame that came; null when none did.</summary>
    public int? CloseCode => (_decoder as WebSocketDecoder)?.CloseCode;

    /// <param name="protocol">What it speaks.</param>
    /// <param name="endPoint">The server.</param>
    /// <param name="take">Gets each line that comes, without its LF, on the thread that read it.</param>
    /// <param name="isSmall">As <see cref="SmallBuffers.Set"/> says.</param>
    public static async Task<TestClient> ConnectAsync(ClientProtocol protocol, IPEndPoint endPoint, Action<string> take, bool isSmall = false)
    {
        var socket = new Socket(endPoint.AddressFamily, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        if (isSmall)
            SmallBuffers.Set(socket);
        await socket.ConnectAsync(endPoint);
        if (protocol == ClientProtocol.WebSocket)
            await WebSocketHandshake.DoAsync(socket, endPoint);
        IClientDecoder decoder = protocol switch
        {
            ClientProtocol.WebSocket => new WebSocketDecoder(),
            ClientProtocol.Telnet => new TelnetDecoder(),
            _ => new RawDecoder(),
        };
        var client = new TestClient(socket, decoder, take);
        client.Ended = client.ReadAsync();
        return client;
    }

    public Task SendAsync(string line) => SendAsync(_decoder.Encode(line));

    /// <summary>Reads no more once the read under way has ended.</summary>
    public void StopReading() => _pause = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);

    public void GoOnReading()
    {
        var pause = _pause;
        _pause = null;
        pause?.SetResult();
    }

    /// <summary>Ends the sending side, so that the server closes the connection.</summary>
    public void Finish() => _socket.Shutdown(SocketShutdown.Send);

    public async ValueTask DisposeAsync()
    {
        _socket.Dispose();
        GoOnReading();
        await Task.WhenAny(Ended);
        _ = Ended.Exception;
        _sending.Dispose();
    }

    private async Task ReadAsync()
    {
        var buffer = new byte[8 * 1024];
        while (true)
        {
            if (_pause is { } pause)
                await pause.Task.ConfigureAwait(false);
            var received = await _socket.ReceiveAsync(buffer.AsMemory(), SocketFlags.None).ConfigureAwait(false);
            if (received == 0)
                break;
            Take(buffer.AsSpan(0, received));
            if (_answer.Count == 0)
                continue;
            byte[] answer = [.. _answer];
            _answer.Clear();
            await SendAsync(answer).ConfigureAwait(false);
        }

        if (_decoder.IsCut || _text.Count > 0)
            throw new InvalidDataException($"The connection ended within a message: {_text.Count} bytes of a line.");
    }

    private void Take(ReadOnlySpan<byte> bytes)
    {
        _decoder.Decode(bytes, _text, _answer);
        var text = CollectionsMarshal.AsSpan(_text);
        var consumed = 0;
        while (text[consumed..].IndexOf((byte)'\n') is var end and >= 0)
        {
            _take(Encoding.UTF8.GetString(text.Slice(consumed, end)));
            consumed += end + 1;
        }

        _text.RemoveRange(0, consumed);
    }

    private async Task SendAsync(ReadOnlyMemory<byte> bytes)
    {
        await _sending.WaitAsync().ConfigureAwait(false);
        try
        {
            while (!bytes.IsEmpty)
                bytes = bytes[await _socket.SendAsync(bytes, SocketFlags.None).ConfigureAwait(false)..];
        }
        finally
        {
            _sending.Release();
        }
    }
}

using System.Buffers.Binary;
using System.Net.Sockets;
using System.Text;

namespace BatchKit.Benchmarks.Sink;

/// <summary>The client's side of a WebSocket (RFC 6455), as far as a sink needs it: the upgrade, counted payloads, answered pings.</summary>
internal sealed class WebSocketClient
{
    private const int Text = 1;
    private const int Close = 8;
    private const int Ping = 9;
    private const int Pong = 10;
    private const byte SignalREnd = 0x1e;
    private const int SignalRAnswerBytes = 3;

    private readonly Socket _socket;
    private readonly bool _isSignalR;
    private readonly byte[] _header = new byte[10];
    private StringBuilder? _response = new();
    private byte[] _control = [];
    private int _controlLength;
    private int _headerLength;
    private int _opcode;
    private long _missing;

    public WebSocketClient(Socket socket, bool isSignalR)
    {
        (_socket, _isSignalR) = (socket, isSignalR);
        _socket.Send(Encoding.ASCII.GetBytes(
            $"GET /{(isSignalR ? "hub" : "socket")} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"));
    }

    public bool IsReady { get; private set; }

    /// <returns>How many bytes of messages are among them.</returns>
    public int Read(ReadOnlySpan<byte> bytes)
    {
        if (_response is not null)
            bytes = ReadResponse(_response, bytes);
        var counted = 0;
        while (!bytes.IsEmpty)
            bytes = _missing == 0 ? ReadHeader(bytes) : ReadPayload(bytes, ref counted);
        IsReady |= _isSignalR && counted >= SignalRAnswerBytes;
        return counted;
    }

    private ReadOnlySpan<byte> ReadResponse(StringBuilder response, ReadOnlySpan<byte> bytes)
    {
        var known = response.Length;
        response.Append(Encoding.ASCII.GetString(bytes));
        var text = response.ToString();
        var end = text.IndexOf("\r\n\r\n", StringComparison.Ordinal);
        if (end < 0)
            return [];
        if (!text.StartsWith("HTTP/1.1 101", StringComparison.Ordinal))
            throw new IOException($"The server refused the upgrade: {text}");
        _response = null;
        if (_isSignalR)
            Send(Text, [.. "{\"protocol\":\"json\",\"version\":1}"u8, SignalREnd]);
        else
            IsReady = true;
        return bytes[(end + 4 - known)..];
    }

    private ReadOnlySpan<byte> ReadHeader(ReadOnlySpan<byte> bytes)
    {
        var needed = _headerLength < 2 ? 2 : (_header[1] & 0x7f) switch { 126 => 4, 127 => 10, _ => 2 };
        var taken = Math.Min(needed - _headerLength, bytes.Length);
        bytes[..taken].CopyTo(_header.AsSpan(_headerLength));
        _headerLength += taken;
        var length = _header[1] & 0x7f;
        if (_headerLength < 2 || _headerLength < (length == 126 ? 4 : length == 127 ? 10 : 2))
            return bytes[taken..];
        _opcode = _header[0] & 0x0f;
        _missing = length switch
        {
            126 => BinaryPrimitives.ReadUInt16BigEndian(_header.AsSpan(2)),
            127 => BinaryPrimitives.ReadInt64BigEndian(_header.AsSpan(2)),
            _ => length,
        };
        (_headerLength, _controlLength) = (0, 0);
        if (_missing == 0)
            FinishFrame();
        return bytes[taken..];
    }

    private ReadOnlySpan<byte> ReadPayload(ReadOnlySpan<byte> bytes, scoped ref int counted)
    {
        var taken = (int)Math.Min(_missing, bytes.Length);
        _missing -= taken;
        if (_opcode < Close)
        {
            counted += taken;
        }
        else
        {
            if (_control.Length == 0)
                _control = new byte[125];
            bytes[..taken].CopyTo(_control.AsSpan(_controlLength));
            _controlLength += taken;
        }

        if (_missing == 0)
            FinishFrame();
        return bytes[taken..];
    }

    private void FinishFrame()
    {
        if (_opcode == Close)
            throw new IOException("The server closed a WebSocket.");
        if (_opcode == Ping)
            Send(Pong, _control.AsSpan(0, _controlLength));
    }

    // A mask of zeros is a mask.
    private void Send(int opcode, ReadOnlySpan<byte> payload) =>
        _socket.Send([(byte)(0x80 | opcode), (byte)(0x80 | payload.Length), 0, 0, 0, 0, .. payload]);
}

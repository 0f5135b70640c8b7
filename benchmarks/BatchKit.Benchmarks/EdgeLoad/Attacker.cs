using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Text;
using BatchKit.Benchmarks.Linux;

namespace BatchKit.Benchmarks.EdgeLoad;

/// <summary>What a hostile client does.</summary>
internal enum AttackKind
{
    /// <summary>Says something in a line of its own, as often as its socket takes it, and reads what comes.</summary>
    Flood = 0,

    /// <summary>The same with the softcode that costs the most of what the limits allow.</summary>
    Softcode = 1,

    /// <summary>Looks around, reads nothing, and connects again ten times a second.</summary>
    Look = 2,

    /// <summary>A WebSocket that sends pings as fast as its socket takes them, and reads nothing.</summary>
    Ping = 3,

    /// <summary>Has its output sent line by line, and timed, and writes as much as the limits allow.</summary>
    LineByLine = 4,

    /// <summary>Compares, as often as that is allowed.</summary>
    Compare = 5,
}

/// <summary>One hostile client. When its connection ends it connects again.</summary>
/// <param name="kind">What it does.</param>
/// <param name="number">Its number among all.</param>
/// <param name="port">The port of the server.</param>
internal sealed class Attacker(AttackKind kind, int number, int port) : IDisposable
{
    // So few share an address that the server takes them all.
    private const int ClientsOfAddress = 10;

    // What one step sends at most, so that the others get their turn.
    private const int MaxSendsOfStep = 2000;

    private static readonly TimeSpan Rest = TimeSpan.FromMilliseconds(100);

    private static readonly string[] Softcode =
    [
        "think strlen(iter(lnum(300),[iter(lnum(300),add(##,%i1))]))",
        "think iter(lnum(100),[words(repeat(x ,120000))])",
        "think iter(lnum(100),[strlen(reverse(repeat(x,250000)))])",
        "@dolist lnum(1000)=@pemit me=[repeat(x,1000)]",
        "@emit [repeat(x,4000)]",
        "@dolist lnum(1000)=@emit ##",
    ];

    private readonly IPEndPoint _source = new(new IPAddress([127, 0, 1, (byte)(2 + (number / ClientsOfAddress))]), 0);
    private readonly byte[] _buffer = new byte[64 * 1024];
    private readonly byte[] _repeated = Repeated(kind, number);
    private Socket? _socket;
    private byte[] _first = [];
    private int _firstSent;
    private int _repeatedSent;
    private long _connectedAt;

    public AttackKind Kind => kind;

    public long Connections { get; private set; }

    public long SentBytes { get; private set; }

    public long ReadBytes { get; private set; }

    private bool ReadsOutput => kind is not (AttackKind.Look or AttackKind.Ping);

    /// <summary>Sends what its socket takes, and reads what has come if it reads at all.</summary>
    public void Step()
    {
        try
        {
            if (_socket is null || (kind == AttackKind.Look && Stopwatch.GetElapsedTime(_connectedAt) > Rest))
                Connect();
            if (_socket is not null)
                Exchange((int)_socket.SafeHandle.DangerousGetHandle());
        }
        catch (Exception end) when (end is IOException or SocketException)
        {
            Dispose();
        }
    }

    public void Dispose()
    {
        _socket?.Dispose();
        _socket = null;
    }

    private static byte[] Repeated(AttackKind kind, int number) => kind switch
    {
        AttackKind.Flood => Encoding.ASCII.GetBytes($"say I am number {number}, and I say this as often as I can.\r\n"),
        AttackKind.Softcode => Encoding.ASCII.GetBytes($"{Softcode[number % Softcode.Length]}\r\n"),
        AttackKind.Look => "look\r\n"u8.ToArray(),
        AttackKind.LineByLine => "@dolist lnum(20000)=@pemit me=##\r\n"u8.ToArray(),
        AttackKind.Compare => "compare\r\n"u8.ToArray(),
        _ => [0x89, 0x80 | 125, 0, 0, 0, 0, .. new byte[125]],
    };

    private void Connect()
    {
        if (Connections > 0 && Stopwatch.GetElapsedTime(_connectedAt) < Rest)
            return;
        Dispose();
        _connectedAt = Stopwatch.GetTimestamp();
        _socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { LingerState = new LingerOption(enable: true, seconds: 0) };
        _socket.Bind(_source);
        _socket.Connect(IPAddress.Loopback, port);
        Connections++;
        _first = Encoding.ASCII.GetBytes(kind == AttackKind.Ping
            ? $"GET /play HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            : $"connect {kind}{number}x{Connections}\r\n{(kind == AttackKind.LineByLine ? "buffering off\r\ntiming on\r\n" : string.Empty)}");
        (_firstSent, _repeatedSent) = (0, 0);
    }

    private void Exchange(int socket)
    {
        while (ReadsOutput && Libc.Receive(socket, _buffer) is var read and > 0)
            ReadBytes += read;
        while (_firstSent < _first.Length)
        {
            if (!TrySend(socket, _first, ref _firstSent))
                return;
        }

        for (var left = MaxSendsOfStep; left > 0 && TrySend(socket, _repeated, ref _repeatedSent); left--)
            _repeatedSent %= _repeated.Length;
    }

    private bool TrySend(int socket, byte[] bytes, ref int sent)
    {
        var taken = Libc.Send(socket, bytes.AsSpan(sent));
        (sent, SentBytes) = (sent + taken, SentBytes + taken);
        return taken > 0;
    }
}

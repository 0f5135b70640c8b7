using System.Net;
using System.Net.Sockets;
using System.Text;

namespace BatchKit.TestSupport;

/// <summary>A client of a session over TCP, which takes its session up again whenever its connection ends. Dispose it: that ends it.</summary>
/// <param name="gateway">Returns the gateway that it connects to next.</param>
public sealed class SessionTcpClient(Func<IPEndPoint> gateway) : IAsyncDisposable
{
    private const int AcknowledgeEvery = 8;

    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(20);

    private readonly CancellationTokenSource _ending = new();
    private Task _running = Task.CompletedTask;
    private volatile Socket? _socket;
    private long _acknowledged;
    private long _last;

    /// <summary>What it knows. Read it when it has ended, or waits.</summary>
    public SessionClient Client { get; } = new();

    /// <summary>The last number that it has.</summary>
    public long Last => Volatile.Read(ref _last);

    /// <summary>How often its session was opened or taken up.</summary>
    public int Arrivals => Client.Arrivals;

    /// <summary>Where it is connected, or was last.</summary>
    public IPEndPoint? Gateway { get; private set; }

    /// <summary>Begins.</summary>
    public void Start() => _running = Task.Run(RunAsync);

    /// <summary>Cuts its connection, so that what is under way is lost.</summary>
    public void Cut() => _socket?.Close(timeout: 0);

    /// <inheritdoc/>
    public async ValueTask DisposeAsync()
    {
        await _ending.CancelAsync();
        Cut();
        await _running.WithinDeadline();
        _ending.Dispose();
    }

    private async Task RunAsync()
    {
        while (!_ending.IsCancellationRequested)
        {
            try
            {
                await ConnectAndReadAsync();
            }
            catch (Exception cut) when (cut is SocketException or IOException or ObjectDisposedException or OperationCanceledException)
            {
                if (!_ending.IsCancellationRequested)
                    await Task.Delay(Pause, TimeProvider.System, CancellationToken.None);
            }
        }
    }

    private async Task ConnectAndReadAsync()
    {
        using var socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        var gatewayNow = gateway();
        await socket.ConnectAsync(gatewayNow, _ending.Token);
        (_socket, Gateway) = (socket, gatewayNow);
        await using var stream = new NetworkStream(socket);
        await SayAsync(stream, Client.Greet());
        var rest = string.Empty;
        var bytes = new byte[4096];
        while (await stream.ReadAsync(bytes, _ending.Token) is > 0 and var count)
        {
            // A line without its end was cut.
            string[] lines = [.. (rest + Encoding.UTF8.GetString(bytes, 0, count)).Split("\r\n")];
            rest = lines[^1];
            foreach (var line in lines[..^1])
                await TakeAsync(stream, line);
        }
    }

    private async Task TakeAsync(NetworkStream stream, string line)
    {
        if (Client.Take(line) is { } answer)
            await SayAsync(stream, answer);
        Volatile.Write(ref _last, Client.Last);
        if (Client.Last - _acknowledged < AcknowledgeEvery)
            return;
        _acknowledged = Client.Last;
        await SayAsync(stream, $"session ack {_acknowledged}");
    }

    private ValueTask SayAsync(NetworkStream stream, string line) => stream.WriteAsync(Encoding.UTF8.GetBytes(line + "\r\n"), _ending.Token);
}

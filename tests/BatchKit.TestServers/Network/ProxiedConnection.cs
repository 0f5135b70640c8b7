using System.Net.Sockets;

namespace BatchKit.TestServers.Network;

/// <summary>One client's connection through a <see cref="TcpProxy"/>: two sockets and a pump in each direction.</summary>
internal sealed class ProxiedConnection
{
    private readonly TcpProxy _proxy;
    private readonly Socket _client;
    private readonly Socket _server = new(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
    private volatile bool _isSilent;
    private volatile MethodLoss? _loss;

    public ProxiedConnection(TcpProxy proxy, Socket client)
    {
        _proxy = proxy;
        _client = client;
        client.NoDelay = true;
        if (proxy.BufferBytes is { } bytes)
            (_server.ReceiveBufferSize, client.SendBufferSize) = (bytes, bytes);
    }

    public Task Completion { get; private set; } = Task.CompletedTask;

    public void Start(string host, int port) => Completion = RunAsync(host, port);

    public void Silence() => _isSilent = true;

    public void Lose(byte[] method) => _loss = new MethodLoss(method, _proxy.LosesMethod);

    public void Reset()
    {
        Reset(_client);
        Reset(_server);
    }

    private static void Reset(Socket socket)
    {
        // Closing with a linger time of zero sends RST instead of FIN.
        try
        {
            socket.LingerState = new LingerOption(enable: true, seconds: 0);
        }
        catch (Exception exception) when (exception is SocketException or ObjectDisposedException)
        {
            // It is closed already, and disposing it again does nothing.
        }

        socket.Dispose();
    }

    private async Task RunAsync(string host, int port)
    {
        try
        {
            await _server.ConnectAsync(host, port);
            await Task.WhenAll(PumpAsync(_client, _server, toServer: true), PumpAsync(_server, _client, toServer: false));
        }
        catch (Exception exception) when (exception is SocketException or ObjectDisposedException)
        {
            // The server is down or the proxy cut this connection: its client sees a reset.
        }

        Reset();
    }

    private async Task PumpAsync(Socket from, Socket to, bool toServer)
    {
        var buffer = new byte[toServer ? 64 * 1024 : _proxy.BufferBytes ?? 64 * 1024];
        try
        {
            while (await from.ReceiveAsync(buffer) is > 0 and var received)
            {
                if (_isSilent)
                    continue;
                if (!toServer && _proxy.BytesPerSecond is { } rate)
                    await Task.Delay(TimeSpan.FromSeconds((double)received / rate));
                await _proxy.WhileStalledAsync(buffer.AsSpan(0, received));
                var kept = toServer && _loss is { } loss ? loss.Filter(buffer.AsSpan(0, received)) : buffer.AsMemory(0, received);
                var passed = toServer ? _proxy.Pass(kept.Length) : kept.Length;
                for (var sent = 0; sent < passed;)
                    sent += await to.SendAsync(kept[sent..passed]);
                if (passed < kept.Length)
                    break;
            }
        }
        finally
        {
            // One direction that ends ends both, or the other pump would wait for ever.
            if (toServer)
                Reset();
            else
                _client.Dispose();
        }
    }
}

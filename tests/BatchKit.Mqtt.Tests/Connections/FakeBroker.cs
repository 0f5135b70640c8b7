using System.Net;
using System.Net.Sockets;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>A loopback port on which a test plays the broker, packet by packet.</summary>
internal sealed class FakeBroker : IDisposable
{
    private readonly TcpListener _listener = new(IPAddress.Loopback, port: 0);

    public FakeBroker() => _listener.Start();

    public int Port => ((IPEndPoint)_listener.LocalEndpoint).Port;

    public Uri Address => new($"mqtt://127.0.0.1:{Port}");

    /// <summary>The next client, whose CONNECT is not read yet.</summary>
    public async Task<FakeBrokerConnection> AcceptAsync() => new(await _listener.AcceptSocketAsync().WithinDeadline());

    /// <summary>The next client, whose CONNECT was read and answered with success.</summary>
    public async Task<FakeBrokerConnection> WelcomeAsync(MqttVersion version = MqttVersion.V5)
    {
        var connection = await AcceptAsync();
        await connection.ReadAsync();
        await connection.WriteAsync(version == MqttVersion.V5 ? ConnectionSome.Connack : ConnectionSome.Connack311);
        return connection;
    }

    public void Dispose() => _listener.Dispose();
}

/// <summary>The broker's end of one client's connection.</summary>
internal sealed class FakeBrokerConnection : IDisposable
{
    private readonly Socket _socket;
    private readonly NetworkStream _stream;

    public FakeBrokerConnection(Socket socket)
    {
        socket.NoDelay = true;
        _socket = socket;
        _stream = new NetworkStream(socket, ownsSocket: true);
    }

    /// <summary>The client's next packet, whole. Understands lengths of one or two bytes.</summary>
    public async Task<byte[]> ReadAsync()
    {
        var start = await ReadExactlyAsync(2);
        byte[] header = start[1] < 0x80 ? start : [.. start, .. await ReadExactlyAsync(1)];
        var length = header.Length == 2 ? header[1] : (header[1] & 0x7F) + (header[2] << 7);
        return [.. header, .. await ReadExactlyAsync(length)];
    }

    /// <summary>What the client has sent, whatever it is.</summary>
    public async Task<byte[]> ReadSomeAsync()
    {
        var some = new byte[64];
        return some[..await _stream.ReadAsync(some).AsTask().WithinDeadline()];
    }

    public async Task WriteAsync(params byte[] bytes) => await _stream.WriteAsync(bytes).WithinDeadline();

    public async Task WriteBytesOneByOneAsync(byte[] bytes)
    {
        foreach (var value in bytes)
            await WriteAsync(value);
    }

    /// <summary>What the client sends until it closes.</summary>
    public async Task<byte[]> ReadToEndAsync()
    {
        var rest = new MemoryStream();
        await _stream.CopyToAsync(rest).WithinDeadline();
        return rest.ToArray();
    }

    public void Reset()
    {
        _socket.LingerState = new LingerOption(enable: true, seconds: 0);
        _socket.Dispose();
    }

    public void Dispose() => _stream.Dispose();

    private async Task<byte[]> ReadExactlyAsync(int count)
    {
        var bytes = new byte[count];
        await _stream.ReadExactlyAsync(bytes).WithinDeadline();
        return bytes;
    }
}

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

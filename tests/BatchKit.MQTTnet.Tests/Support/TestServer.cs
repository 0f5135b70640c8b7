using System.Globalization;
using System.Net;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using MQTTnet;
using MQTTnet.Adapter;
using MQTTnet.Formatter;
using MQTTnet.Server;

namespace BatchKit.MQTTnet.Tests.Support;

/// <summary>An MQTTnet server of a test's own, on loopback, and clients of it.</summary>
internal sealed class TestServer : IAsyncDisposable
{
    private readonly int _port;
    private readonly List<IMqttClient> _clients = [];

    private TestServer(MqttServer server, int port)
    {
        Server = server;
        _port = port;
    }

    public MqttServer Server { get; }

    public static async Task<TestServer> StartAsync(Action<MqttServerOptionsBuilder>? configure = null, IMqttServerAdapter? adapter = null)
    {
        var made = Make(configure, adapter);
        await made.Server.StartAsync().WithinDeadline();
        return made;
    }

    public static TestServer Make(Action<MqttServerOptionsBuilder>? configure = null, IMqttServerAdapter? adapter = null)
    {
        var port = FreePort.Take(1)[0];
        var builder = new MqttServerOptionsBuilder().WithDefaultEndpoint().WithDefaultEndpointPort(port)
            .WithDefaultEndpointBoundIPAddress(IPAddress.Loopback).WithDefaultEndpointBoundIPV6Address(IPAddress.None);
        configure?.Invoke(builder);
        var factory = new MqttServerFactory();
        return new TestServer(adapter is null ? factory.CreateMqttServer(builder.Build()) : factory.CreateMqttServer(builder.Build(), [adapter]), port);
    }

    public IMqttClient MakeClient(IMqttClientAdapterFactory? factory = null)
    {
        var client = factory is null ? new MqttClientFactory().CreateMqttClient() : new MqttClientFactory().CreateMqttClient(factory);
        _clients.Add(client);
        return client;
    }

    public async Task<IMqttClient> ConnectAsync(IMqttClientAdapterFactory? factory = null)
    {
        var client = MakeClient(factory);
        await ConnectAsync(client);
        return client;
    }

    /// <summary>Connects without a keep-alive: the server counts it by the clock of the system, so a machine that was suspended, or whose clock is set, loses every client.</summary>
    public Task ConnectAsync(IMqttClient client, string? clientId = null, Action<MqttClientOptionsBuilder>? configure = null)
    {
        var builder = new MqttClientOptionsBuilder().WithNoKeepAlive().WithTcpServer("127.0.0.1", _port).WithProtocolVersion(MqttProtocolVersion.V500).WithClientId(clientId ?? Some.Name("client"));
        configure?.Invoke(builder);
        return client.ConnectAsync(builder.Build()).WithinDeadline();
    }

    /// <summary>A plain socket to the server, for a client that does not read.</summary>
    public IPEndPoint EndPoint => IPEndPoint.Parse(string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{_port}"));

    public async ValueTask DisposeAsync()
    {
        foreach (var client in _clients)
            client.Dispose();
        if (Server.IsStarted)
            await Server.StopAsync();
        Server.Dispose();
    }
}

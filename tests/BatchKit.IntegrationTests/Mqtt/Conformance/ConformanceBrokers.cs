using System.Globalization;
using System.Net;
using System.Security.Cryptography.X509Certificates;
using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Certificates;
using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Mqtt;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.RabbitMQ;
using MQTTnet.Protocol;
using MQTTnet.Server;

namespace BatchKit.IntegrationTests.Mqtt.Conformance;

/// <summary>The brokers of the conformance lane, each started when the first scenario needs it.</summary>
public sealed class ConformanceBrokers : IAsyncDisposable
{
    public const string Mosquitto = "Mosquitto";
    public const string MqttNet = "MQTTnet.Server";
    public const string RabbitMq = "RabbitMQ";
    public const string Aedes = "aedes";

    /// <summary>MQTTnet's server sends clients whose id begins with this to <see cref="OtherServer"/>.</summary>
    public const string SentAway = "sent-away";
    public const string OtherServer = "other.example:1883";

    /// <summary>Mosquitto lets no client ask for more.</summary>
    public const int ServerKeepAliveSeconds = 15;

    private readonly TestAuthority _authority = new();
    private readonly SemaphoreSlim _gate = new(1, 1);
    private readonly Dictionary<string, ConformanceBroker> _started = new(StringComparer.Ordinal);

    /// <summary>Every broker, over each way to connect to it that it has, with each version of MQTT that it knows.</summary>
    public static TheoryData<string, string, MqttVersion> Cases
    {
        get
        {
            var cases = new TheoryData<string, string, MqttVersion>();
            Add(Mosquitto, ["mqtt", "mqtts", "ws", "wss"], [MqttVersion.V5, MqttVersion.V311]);
            Add(MqttNet, ["mqtt", "mqtts"], [MqttVersion.V5, MqttVersion.V311]);
            // Before version 3.13 it has no MQTT 5, and aedes has none either.
            Add(RabbitMq, ["mqtt", "ws"], [MqttVersion.V311]);
            Add(Aedes, ["mqtt", "ws"], [MqttVersion.V311]);
            return cases;

            void Add(string broker, string[] schemes, MqttVersion[] versions)
            {
                foreach (var scheme in schemes)
                {
                    foreach (var version in versions)
                        cases.Add(broker, scheme, version);
                }
            }
        }
    }

    internal async Task<ConformanceBroker> GetAsync(string name)
    {
        await _gate.WaitAsync();
        try
        {
            if (!_started.TryGetValue(name, out var broker))
                _started[name] = broker = await StartAsync(name);
            return broker;
        }
        finally
        {
            _gate.Release();
        }
    }

    public async ValueTask DisposeAsync()
    {
        foreach (var broker in _started.Values)
            await broker.DisposeAsync();
        _authority.Dispose();
        _gate.Dispose();
    }

    private async Task<ConformanceBroker> StartAsync(string name) => name switch
    {
        Mosquitto => await StartMosquittoAsync(),
        MqttNet => await StartMqttNetAsync(),
        RabbitMq => await StartRabbitMqAsync(),
        _ => await StartAedesAsync(),
    };

    private async Task<ConformanceBroker> StartMosquittoAsync()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        var server = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { Certificate = _authority.Issue("127.0.0.1"), MaxQueued = 0, Lines = [$"max_keepalive {ServerKeepAliveSeconds}"] });
        return new ConformanceBroker(Addresses(("mqtt", server.Port), ("mqtts", server.TlsPort), ("ws", server.WebSocketPort), ("wss", server.SecureWebSocketPort)), _authority.Trusts, server)
        {
            RestartAsync = async () =>
            {
                await server.StopAsync();
                await server.StartAsync();
            },
        };
    }

    private async Task<ConformanceBroker> StartMqttNetAsync()
    {
        var ports = FreePort.Take(2);
        var certificate = _authority.Issue("127.0.0.1");
        var server = new MqttServerFactory().CreateMqttServer(new MqttServerOptionsBuilder()
            .WithDefaultEndpoint().WithDefaultEndpointPort(ports[0]).WithDefaultEndpointBoundIPAddress(IPAddress.Loopback).WithDefaultEndpointBoundIPV6Address(IPAddress.None)
            .WithEncryptedEndpoint().WithEncryptedEndpointPort(ports[1]).WithEncryptedEndpointBoundIPAddress(IPAddress.Loopback).WithEncryptedEndpointBoundIPV6Address(IPAddress.None)
            .WithEncryptionCertificate(certificate).WithPersistentSessions().WithMaxPendingMessagesPerClient(100_000).Build());
        server.ValidatingConnectionAsync += static client =>
        {
            if (client.ClientId.StartsWith(SentAway, StringComparison.Ordinal))
                (client.ReasonCode, client.ServerReference) = (MqttConnectReasonCode.UseAnotherServer, OtherServer);
            return Task.CompletedTask;
        };
        await server.StartAsync();
        return new ConformanceBroker(Addresses(("mqtt", ports[0]), ("mqtts", ports[1])), _authority.Trusts, new StartedMqttNet(server, certificate));
    }

    private async Task<ConformanceBroker> StartRabbitMqAsync()
    {
        RequiredServer.SkipWhen(RabbitMqServer.WhyNotInstalled);
        var server = await RabbitMqServer.StartWithMqttAsync();
        return new ConformanceBroker(Addresses(("mqtt", server.MqttPort), ("ws", server.WebMqttPort)), _authority.Trusts, server) { UserName = "guest", Password = "guest" };
    }

    private async Task<ConformanceBroker> StartAedesAsync()
    {
        var server = await AedesServer.StartAsync();
        if (server.WhyMissing is { } reason)
        {
            await server.DisposeAsync();
            Assert.Skip(reason);
        }

        return new ConformanceBroker(Addresses(("mqtt", server.Port), ("ws", server.WebSocketPort)), _authority.Trusts, server);
    }

    private static Dictionary<string, Uri> Addresses(params (string Scheme, int Port)[] ports) => ports.ToDictionary(
        static port => port.Scheme,
        static port => new Uri(string.Create(CultureInfo.InvariantCulture, $"{port.Scheme}://127.0.0.1:{port.Port}{(port.Scheme[0] == 'w' ? "/ws" : "")}")), StringComparer.Ordinal);

    private sealed class StartedMqttNet(MqttServer server, X509Certificate2 certificate) : IAsyncDisposable
    {
        public async ValueTask DisposeAsync()
        {
            await server.StopAsync();
            server.Dispose();
            certificate.Dispose();
        }
    }
}

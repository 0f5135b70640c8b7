using System.Security.Cryptography.X509Certificates;
using BatchKit.MQTTnet.Tests.Support;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using MQTTnet;
using MQTTnet.Formatter;

namespace BatchKit.MQTTnet.Tests;

/// <summary>MQTTnet's client, with the stock channel and with batched writes, at a broker that is not MQTTnet's.</summary>
public sealed class MosquittoTests : MosquittoTest
{
    private const int Messages = 5000;

    private static readonly X509Certificate2 ServerCertificate = Certificate.Make();

    private readonly ProducerId _producer = Some.Producer();

    private protected override MosquittoServerOptions ServerOptions { get; } = new() { Certificate = ServerCertificate, MaxQueued = 100_000, Lines = ["max_packet_size 2000"] };

    [Theory]
    [InlineData("tcp", false)]
    [InlineData("tcp", true)]
    [InlineData("tls", true)]
    [InlineData("websocket", true)]
    public async Task Everything_arrives_in_order(string way, bool isBatched)
    {
        var subscriber = new Subscriber(MakeClient(isBatched: false));
        await ConnectAsync(subscriber.Client, "tcp");
        await subscriber.SubscribeAsync("#");
        var client = MakeClient(isBatched);
        using var transport = new MqttClientTransport(client);
        await ConnectAsync(client, way);

        await SendAsync(transport, [.. Enumerable.Range(0, Messages / 50).Select(batch => Some.Batch(OutputHandle.Named("topic"), _producer, batch + 1, Some.Lines(50, batch * 50)))]);
        await subscriber.WaitForMessagesAsync(Messages);

        Assert.Equal(Some.Lines(Messages), subscriber.Texts);
    }

    [Fact]
    public async Task The_brokers_receive_maximum_limits_the_window()
    {
        var client = MakeClient(isBatched: true);
        using var transport = new MqttClientTransport(client);
        var before = transport.Window;

        await ConnectAsync(client, "tcp");

        Assert.Equal((1000, 20), (before, transport.Window));
    }

    [Fact]
    public async Task A_message_above_the_brokers_packet_size_is_refused_and_its_neighbours_arrive()
    {
        var client = MakeClient(isBatched: true);
        using var transport = new MqttClientTransport(client);
        await ConnectAsync(client, "tcp");

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(transport,
            Some.Batch(Some.Group(), _producer, 1, "x"), Some.Batch(Some.Group(), _producer, 2, new string('x', 2001)), Some.Batch(Some.Group(), _producer, 3, "x")));

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged], exception.Outcomes);
        Assert.Contains("2000", exception.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("topic\uFFFE", null, null)]
    [InlineData("topic", "name", "a\tb")]
    [InlineData("topic", "na\u0001me", "b")]
    public async Task A_text_for_which_the_broker_ends_the_connection_is_refused_and_the_99_around_it_arrive(string topic, string? property, string? value)
    {
        var client = MakeClient(isBatched: true);
        using var transport = new MqttClientTransport(client);
        await ConnectAsync(client, "tcp");
        var disconnects = 0;
        client.DisconnectedAsync += _ => Task.FromResult(Interlocked.Increment(ref disconnects));
        var header = property is null ? null : new MessageHeader { Properties = [new(property, value!)] };
        var batches = Enumerable.Range(1, 100).Select(number => number == 50
            ? MessageBatch.Create(OutputHandle.Named(topic), _producer, number, Some.Message("bad", header))
            : Some.Batch(Some.Group(), _producer, number, "good")).ToArray();

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(transport, batches));

        Assert.Equal(99, exception.Outcomes.Count(static outcome => outcome == BatchOutcome.Acknowledged));
        Assert.Equal(BatchOutcome.Refused, exception.Outcomes[49]);
        Assert.Equal((0, true), (disconnects, client.IsConnected));
    }

    [Fact]
    public async Task A_logger_that_throws_fails_neither_the_connect_nor_a_send()
    {
        var client = MakeClient(isBatched: true);
        using var transport = new MqttClientTransport(client, options: null, new Logger<MqttClientTransport>(new ThrowingLoggerFactory(polite: 0)));

        await ConnectAsync(client, "tcp");
        await SendAsync(transport, Some.Batch(Some.Group(), _producer, 1, "x"));

        Assert.Equal(20, transport.Window);
    }

    [Fact]
    public async Task A_killed_broker_fails_the_send_and_what_was_unacknowledged_can_be_sent_again()
    {
        var client = MakeClient(isBatched: true);
        using var transport = new MqttClientTransport(client);
        await ConnectAsync(client, "tcp");
        var batches = Enumerable.Range(1, 20_000).Select(number => Some.Batch(OutputHandle.Named($"t/{number}"), _producer, number, "x")).ToArray();

        var sending = SendAsync(transport, batches);
        await Server.KillAsync();
        var exception = await Record.ExceptionAsync(() => sending);
        await Server.StartAsync();
        await ConnectAsync(client, "tcp");
        var rest = exception is BatchSendException partly ? batches.Where((_, index) => partly.Outcomes[index] != BatchOutcome.Acknowledged).ToArray() : batches;
        await SendAsync(transport, rest);

        Assert.True(exception is BatchSendException or IOException, $"{exception}");
        Assert.Equal(0, transport.InFlightMessages);
    }

    private static Task SendAsync(MqttClientTransport transport, params MessageBatch[] batches) => transport.SendAsync(batches, CancellationToken.None).WithinDeadline();

    private Task<MqttClientConnectResult> ConnectAsync(IMqttClient client, string way)
    {
        var options = new MqttClientOptionsBuilder().WithProtocolVersion(MqttProtocolVersion.V500).WithClientId(Some.Name("client"));
        options = way switch
        {
            "websocket" => options.WithWebSocketServer(socket => socket.WithUri($"ws://{Server.Host}:{Server.WebSocketPort}/mqtt")),
            "tls" => options.WithTcpServer(Server.Host, Server.TlsPort)
                .WithTlsOptions(tls => tls.UseTls().WithCertificateValidationHandler(shown => shown.Certificate.GetCertHashString() == ServerCertificate.GetCertHashString())),
            _ => options.WithTcpServer(Server.Host, Server.Port),
        };
        return client.ConnectAsync(options.Build()).WithinDeadline();
    }
}

using System.Net;
using System.Net.Sockets;
using BatchKit.MQTTnet.Tests.Support;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using MQTTnet.Protocol;
using MQTTnet.Server;

namespace BatchKit.MQTTnet.Tests;

public sealed class BatchedWriteServerTests
{
    private const int Messages = 10_000;

    [Theory]
    [InlineData(MqttQualityOfServiceLevel.AtMostOnce)]
    [InlineData(MqttQualityOfServiceLevel.AtLeastOnce)]
    public async Task A_burst_arrives_in_order_and_whole(MqttQualityOfServiceLevel qualityOfService)
    {
        await using var server = await TestServer.StartAsync(adapter: new BatchedWriteServerAdapter());
        var subscriber = await Subscriber.StartAsync(server, "#", qualityOfService);

        await SendAsync(server);
        await subscriber.WaitForMessagesAsync(Messages);

        Assert.Equal(Some.Lines(Messages), subscriber.Texts);
    }

    [Fact]
    public async Task Clients_come_in_through_TLS_as_the_servers_options_say()
    {
        using var certificate = Certificate.Make();
        var port = FreePort.Take(1)[0];
        await using var server = await TestServer.StartAsync(
            options => options.WithEncryptedEndpoint().WithEncryptedEndpointPort(port).WithEncryptedEndpointBoundIPAddress(IPAddress.Loopback)
                .WithEncryptedEndpointBoundIPV6Address(IPAddress.None).WithEncryptionCertificate(certificate),
            new BatchedWriteServerAdapter());
        var client = server.MakeClient(new BatchedWriteClientAdapterFactory());
        await server.ConnectAsync(client, configure: options => options.WithTcpServer("127.0.0.1", port)
            .WithTlsOptions(tls => tls.UseTls().WithCertificateValidationHandler(shown => shown.Certificate.GetCertHashString() == certificate.GetCertHashString())));
        var subscriber = new Subscriber(client);
        await subscriber.SubscribeAsync("#");

        await SendAsync(server);
        await subscriber.WaitForMessagesAsync(Messages);

        Assert.Equal(Some.Lines(Messages), subscriber.Texts);
    }

    [Fact]
    public async Task A_client_that_does_not_read_fills_the_servers_own_queue()
    {
        await using var server = await TestServer.StartAsync(adapter: new BatchedWriteServerAdapter());
        var time = new ManualTimeProvider();
        using var transport = new MqttServerTransport(server.Server, timeProvider: time);
        using var stuck = await StuckSubscriber.StartAsync(server);
        var batches = Enumerable.Range(1, 500).Select(number => Some.Batch(OutputHandle.Named("topic"), Some.Producer(), number, [.. Enumerable.Repeat(new string('x', 2000), 100)])).ToArray();
        using var cancellation = new CancellationTokenSource();

        var sending = transport.SendAsync(batches, cancellation.Token).AsTask();
        await time.WaitForTimersAsync();
        var isWaiting = !sending.IsCompleted;
        await cancellation.CancelAsync();
        await Record.ExceptionAsync(() => sending.WithinDeadline());

        Assert.True(isWaiting);
    }

    [Fact]
    public async Task A_stopped_server_listens_no_more_and_may_start_again()
    {
        await using var server = await TestServer.StartAsync(adapter: new BatchedWriteServerAdapter());
        await server.ConnectAsync();

        await server.Server.StopAsync().WithinDeadline();
        using (var socket = new Socket(SocketType.Stream, ProtocolType.Tcp))
            await Assert.ThrowsAnyAsync<SocketException>(() => socket.ConnectAsync(server.EndPoint));
        await server.Server.StartAsync().WithinDeadline();

        Assert.True((await server.ConnectAsync()).IsConnected);
    }

    private static async Task SendAsync(TestServer server)
    {
        using var transport = new MqttServerTransport(server.Server, new MqttServerTransportOptions { SlowSubscriberTimeout = Deadline.Time });
        var producer = Some.Producer();
        await transport.SendAsync(Enumerable.Range(0, Messages / 50).Select(batch => Some.Batch(OutputHandle.Named("topic"), producer, batch + 1, Some.Lines(50, batch * 50))).ToArray(), CancellationToken.None).WithinDeadline();
    }
}

using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography.X509Certificates;
using BatchKit.MQTTnet.Tests.Support;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using MQTTnet.Certificates;
using MQTTnet.Diagnostics.Logger;
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
        await using var server = await TestServer.StartAsync(options => Encrypt(options, port).WithEncryptionCertificate(certificate), new BatchedWriteServerAdapter());
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

    [Fact]
    public async Task A_certificate_provider_that_blocks_holds_up_neither_another_client_nor_the_stop()
    {
        using var certificate = Certificate.Make();
        using var provider = new BlockingProvider(certificate);
        var port = FreePort.Take(1)[0];
        await using var server = await TestServer.StartAsync(options => Encrypt(options, port).WithEncryptionCertificate(provider), new BatchedWriteServerAdapter());
        using var first = new Socket(SocketType.Stream, ProtocolType.Tcp);
        await first.ConnectAsync(IPAddress.Loopback, port);
        await provider.Entered.WithinDeadline();

        var second = server.MakeClient();
        await server.ConnectAsync(second, configure: options => options.WithTcpServer("127.0.0.1", port).WithTlsOptions(tls => tls.UseTls().WithCertificateValidationHandler(_ => true)));
        var isConnected = second.IsConnected;
        await server.Server.StopAsync().WithinDeadline();
        provider.Release();

        Assert.True(isConnected);
    }

    [Fact]
    public async Task A_client_whose_socket_does_not_take_the_options_is_closed_though_the_log_throws()
    {
        using var adapter = new BatchedWriteServerAdapter();
        var port = FreePort.Take(1)[0];
        var options = new MqttServerOptionsBuilder().WithDefaultEndpoint().WithDefaultEndpointPort(port).WithDefaultEndpointBoundIPAddress(IPAddress.Loopback)
            .WithDefaultEndpointBoundIPV6Address(IPAddress.None).Build();
        options.DefaultEndpointOptions.TcpKeepAliveInterval = -1;
        await adapter.StartAsync(options, new ThrowingLogger());

        for (var client = 0; client < 2; client++)
        {
            using var socket = new Socket(SocketType.Stream, ProtocolType.Tcp);
            // The endpoint's default is to reset a connection that it closes, perhaps before the connect has returned.
            await Assert.ThrowsAsync<SocketException>(async () =>
            {
                await socket.ConnectAsync(IPAddress.Loopback, port);
                await socket.ReceiveAsync(new byte[1]).WithinDeadline();
            });
        }

        await adapter.StopAsync().WithinDeadline();
    }

    private static MqttServerOptionsBuilder Encrypt(MqttServerOptionsBuilder options, int port) => options.WithEncryptedEndpoint().WithEncryptedEndpointPort(port)
        .WithEncryptedEndpointBoundIPAddress(IPAddress.Loopback).WithEncryptedEndpointBoundIPV6Address(IPAddress.None);

    private static async Task SendAsync(TestServer server)
    {
        using var transport = new MqttServerTransport(server.Server, new MqttServerTransportOptions { SlowSubscriberTimeout = Deadline.Time });
        var producer = Some.Producer();
        await transport.SendAsync(Enumerable.Range(0, Messages / 50).Select(batch => Some.Batch(OutputHandle.Named("topic"), producer, batch + 1, Some.Lines(50, batch * 50))).ToArray(), CancellationToken.None).WithinDeadline();
    }

    /// <summary>Blocks its first call until it is released.</summary>
    private sealed class BlockingProvider(X509Certificate2 certificate) : ICertificateProvider, IDisposable
    {
        private readonly TaskCompletionSource _entered = new(TaskCreationOptions.RunContinuationsAsynchronously);
        private readonly ManualResetEventSlim _released = new();

        public Task Entered => _entered.Task;

        public X509Certificate2 GetCertificate()
        {
            if (_entered.TrySetResult())
                _released.Wait(Deadline.Time);
            return certificate;
        }

        public void Release() => _released.Set();

        public void Dispose() => _released.Dispose();
    }

    private sealed class ThrowingLogger : IMqttNetLogger
    {
        public bool IsEnabled => true;

        public void Publish(MqttNetLogLevel logLevel, string source, string message, object[]? parameters, Exception? exception) => throw new InvalidOperationException("The log throws.");
    }
}

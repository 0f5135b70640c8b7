using System.Net;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.RabbitMQ;
using Microsoft.Extensions.Options;
using RabbitMQ.Client;
using static BatchKit.IntegrationTests.RabbitMQ.RabbitMqEnds;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>The ways to connect: a connection string, a connection or factory of the application; and failing fast.</summary>
public sealed class RabbitMqConnectTests(RabbitMqFixture fixture)
{
    private const string Secret = "s3cret";

    private readonly CollectingTransport _arrived = new();

    [Fact]
    public async Task A_connection_string_with_several_hosts_finds_the_one_that_works()
    {
        var server = await fixture.GetAsync();
        var user = server.Address.UserInfo;
        var options = new RabbitMqOptions
        {
            ConnectionString = $"amqp://{user}@127.0.0.1:{FreePort.Take(1)[0]},{server.Host}:{server.Port}{server.Address.AbsolutePath}",
            Prefix = Some.Name("test"),
        };

        await AssertArrivesAsync(options);
    }

    [Fact]
    public async Task A_host_whose_name_server_does_not_answer_keeps_no_other_from_being_tried()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server, static options => options.Hosts = ["silent", .. options.Hosts]);
        var connector = new RabbitMqConnector(options, "test", TimeProvider.System, static (host, cancellationToken) =>
            host == "silent" ? new TaskCompletionSource<IPAddress[]>().Task.WaitAsync(cancellationToken) : Dns.GetHostAddressesAsync(host, cancellationToken));

        await using var connection = await connector.ConnectAsync(CancellationToken.None).WithinDeadline();

        Assert.True(connection.IsOpen);
    }

    [Theory]
    [InlineData("amqp://broker", false, "guest", "guest", "/", "broker")]
    [InlineData("amqps://ana:p%40ss@broker-1,broker-2:5673/games", true, "ana", "p@ss", "games", "broker-1 broker-2:5673")]
    [InlineData("amqp://ana:a:b@c@broker/%2F", false, "ana", "a:b@c", "/", "broker")]
    [InlineData("amqp://u:p@one/v, amqp://u:p@two:5673/v", false, "u", "p", "v", "one two:5673")]
    [InlineData("AMQPS://[::1]:5671/", true, "guest", "guest", "/", "[::1]:5671")]
    public void A_connection_string_names_hosts_user_virtual_host_and_tls(string text, bool tls, string user, string password, string virtualHost, string hosts)
    {
        var options = new RabbitMqOptions { ConnectionString = text }.Copy();

        Assert.Equal((tls, user, password, virtualHost), (options.UseTls, options.UserName, options.Password, options.VirtualHost));
        Assert.Equal(hosts.Split(' '), options.Hosts);
    }

    [Theory]
    [InlineData("http://u:s3cret@broker")]
    [InlineData("u:s3cret@broker")]
    [InlineData("amqp://u:s3cret@broker:port")]
    [InlineData("amqp://u:s3cret@broker?heartbeat=5")]
    [InlineData("amqp://u:s3cret@one,amqps://u:s3cret@two")]
    public void A_connection_string_that_is_none_is_refused_without_repeating_the_password(string text)
    {
        var refused = Assert.Throws<OptionsValidationException>(() => new RabbitMqTransport(new RabbitMqOptions { ConnectionString = text }));

        Assert.StartsWith("RabbitMqOptions.ConnectionString ", refused.Message, StringComparison.Ordinal);
        Assert.DoesNotContain(Secret, refused.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_frame_that_the_applications_factory_could_not_read_is_refused_at_the_start()
    {
        var options = new RabbitMqOptions { ConnectionFactory = new ConnectionFactory(), MaxFrameBytes = 70 * 1024 * 1024 };

        var refused = Assert.Throws<OptionsValidationException>(() => new RabbitMqTransport(options));

        Assert.Contains("MaxFrameBytes (73400320) is above MaxInboundMessageBodySize (67108864)", refused.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Only_one_way_to_connect_may_be_set()
    {
        var options = new RabbitMqOptions { ConnectionString = "amqp://broker", ConnectionFactory = new ConnectionFactory() };

        var refused = Assert.Throws<OptionsValidationException>(() => new RabbitMqTransport(options));

        Assert.Contains("exclude each other", refused.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_connection_of_the_application_carries_both_directions_and_stays_open()
    {
        var server = await fixture.GetAsync();
        await using var connection = await Factory(server).CreateConnectionAsync();
        var options = new RabbitMqOptions { Connection = connection, Prefix = Some.Name("test") };

        await AssertArrivesAsync(options);

        Assert.True(connection.IsOpen);
        await using var channel = await connection.CreateChannelAsync();
        Assert.Equal(1, channel.ChannelNumber);
    }

    [Fact]
    public async Task A_factory_of_the_application_opens_connections_that_are_closed_here()
    {
        var server = await fixture.GetAsync();
        var opened = new List<IConnection>();
        var factory = Interceptor.Of<IConnectionFactory>(
            Factory(server), (method, _, call) => method.Name == nameof(IConnectionFactory.CreateConnectionAsync) ? KeepAsync((Task<IConnection>)call()!) : call());

        await AssertArrivesAsync(new RabbitMqOptions { ConnectionFactory = factory, Prefix = Some.Name("test") });

        Assert.Equal(2, opened.Count);
        await Until.TrueAsync(() => opened.TrueForAll(static connection => !connection.IsOpen));

        async Task<IConnection> KeepAsync(Task<IConnection> opening)
        {
            opened.Add(await opening);
            return await opening;
        }
    }

    [Fact]
    public async Task A_host_that_fails_fast_does_not_start_without_its_broker()
    {
        var port = FreePort.Take(1)[0];
        using var host = new RabbitMqTestHost().Build("test", rabbit => (rabbit.Hosts, rabbit.FailFast) = ([$"127.0.0.1:{port}"], true));

        var failed = await Assert.ThrowsAsync<IOException>(() => host.StartAsync().WithinDeadline());

        Assert.Contains($"RabbitMQ at 127.0.0.1:{port}", failed.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_send_that_fails_fast_fails_at_once_and_a_later_one_works()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var options = RabbitMqSome.Options(server, proxy.Port, options => (options.FailFast, options.ConnectTimeout) = (true, TimeSpan.FromSeconds(30)));
        await using var receiver = await StartAsync(RabbitMqSome.Options(server, over => over.Prefix = options.Prefix), _arrived);
        await using var transport = new RabbitMqTransport(options);

        proxy.Stall();
        var sending = transport.SendAsync(new[] { Some.Batch(Some.Connection(Node), Some.Producer(), 1, "refused") }, CancellationToken.None);

        Assert.True(sending.IsFaulted);
        var failed = await Assert.ThrowsAsync<IOException>(() => sending.AsTask());
        Assert.Contains(nameof(RabbitMqOptions.FailFast), failed.Message, StringComparison.Ordinal);
        proxy.Resume();
        await SendUntilRoutedAsync(transport);
        await _arrived.WaitForMessagesAsync(1);
    }

    private static ConnectionFactory Factory(RabbitMqServer server) => new() { Uri = server.Address };

    private async Task AssertArrivesAsync(RabbitMqOptions options)
    {
        await using var receiver = await StartAsync(options, _arrived);
        await using var transport = new RabbitMqTransport(options);

        await SendLinesAsync(transport, count: 3);
        await _arrived.WaitForMessagesAsync(3);

        Assert.Equal(Some.Lines(3), _arrived.Texts);
    }
}

using System.Net;
using System.Net.Sockets;
using BatchKit.RabbitMQ;
using BatchKit.TestServers.Network;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>Hosts with several addresses, of which some refuse, say nothing, or do not exist.</summary>
public sealed class RabbitMqAddressTests(RabbitMqFixture fixture)
{
    [Fact]
    public async Task Each_address_of_a_host_name_is_tried()
    {
        var server = await fixture.GetAsync();
        var closed = IPAddress.Parse("127.0.0.2");
        var options = RabbitMqSome.Options(server, FreePort.Take(1)[0]);
        options.Hosts = [$"broker.example:{server.Port}"];
        var connector = new RabbitMqConnector(options, "test", TimeProvider.System, (name, _) => Task.FromResult(name == "broker.example" ? [closed, IPAddress.Loopback] : Array.Empty<IPAddress>()));

        // The client begins with either.
        for (var attempt = 0; attempt < 10; attempt++)
        {
            await using var connection = await connector.ConnectAsync(CancellationToken.None).WithinDeadline();
            Assert.True(connection.IsOpen);
        }
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task An_address_that_says_nothing_leaves_time_for_the_next(bool accepts)
    {
        var server = await fixture.GetAsync();
        using var silent = new SilentListener(new IPEndPoint(IPAddress.Parse("127.0.0.4"), server.Port), accepts);
        var options = RabbitMqSome.Options(server);
        (options.Hosts, options.ConnectTimeout) = ([$"broker.example:{server.Port}"], TimeSpan.FromSeconds(6));
        var connector = new RabbitMqConnector(options, "test", TimeProvider.System, (_, _) => Task.FromResult(new[] { IPAddress.Parse("127.0.0.4"), IPAddress.Loopback }));

        // The order is random.
        for (var attempt = 0; attempt < 4; attempt++)
        {
            using var limit = new CancellationTokenSource(options.ConnectTimeout);
            await using var connection = await connector.ConnectAsync(limit.Token).WithinDeadline();
            Assert.True(connection.IsOpen);
        }
    }

    [Fact]
    public async Task An_address_that_says_nothing_is_explained_the_same_way_whichever_limit_ends_first()
    {
        var port = FreePort.Take(1)[0];
        using var silent = new SilentListener(new IPEndPoint(IPAddress.Parse("127.0.0.2"), port), accepts: true);
        var options = new RabbitMqOptions { Hosts = [$"broker.example:{port}"], ConnectTimeout = TimeSpan.FromMilliseconds(200) };
        var connector = new RabbitMqConnector(options, "test", TimeProvider.System, (_, _) => Task.FromResult(new[] { IPAddress.Parse("127.0.0.2"), IPAddress.Parse("127.0.0.2") }));

        var failure = await Assert.ThrowsAnyAsync<Exception>(() => connector.ConnectAsync(CancellationToken.None).WithinDeadline());

        var text = connector.Explain(failure, timedOut: false).Message;
        Assert.Contains("did not answer within 00:00:00.2", text, StringComparison.Ordinal);
        Assert.Equal(text, connector.Explain(new OperationCanceledException(), timedOut: true).Message);
    }

    [Fact]
    public async Task A_host_name_without_addresses_keeps_no_other_host_from_being_tried()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        options.Hosts = ["gone.example", $"broker.example:{server.Port}"];
        var connector = new RabbitMqConnector(options, "test", TimeProvider.System, (name, _) => name == "broker.example" ? Task.FromResult(new[] { IPAddress.Loopback }) : throw new SocketException((int)SocketError.HostNotFound));

        await using var connection = await connector.ConnectAsync(CancellationToken.None).WithinDeadline();

        Assert.True(connection.IsOpen);
    }
}

using System.Globalization;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Network;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>The connection over which a receiver confirms joins, while the link to the broker is slow.</summary>
public sealed class RabbitMqGroupAnswersTests(RabbitMqFixture fixture)
{
    private const int Attempts = 6;

    [Fact]
    public async Task Connections_that_open_after_they_were_given_up_are_closed()
    {
        var server = await fixture.GetAsync();
        Assert.SkipUnless(server.IsOwned, "Only a broker that the tests have started tells its connections.");
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var options = RabbitMqSome.Options(server, proxy.Port, static options => options.ConnectTimeout = TimeSpan.FromMinutes(1));
        var answers = new RabbitMqGroupAnswers(new RabbitMqConnector(options, "answers", TimeProvider.System), new RabbitMqTopology(options), limit: TimeSpan.FromMilliseconds(50), TimeProvider.System);

        proxy.Stall();
        for (var attempt = 0; attempt < Attempts; attempt++)
            await answers.ReplyAsync(node: 1, [new GroupReply("reply.1", "frame")], CancellationToken.None).WithinDeadline();
        await Until.TrueAsync(() => proxy.AcceptedConnections == Attempts);
        proxy.Resume();

        await Until.TrueAsync(() => proxy.OpenConnections == 0);
        Assert.Equal(0, await CountAsync());

        async Task<int> CountAsync() => (await server.ControlAsync("list_connections", "user_provided_name").WithinDeadline())
            .Split('\n').Count(line => line.StartsWith(string.Create(CultureInfo.InvariantCulture, $"BatchKit {options.Prefix} answers"), StringComparison.Ordinal));
    }
}

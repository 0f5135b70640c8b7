using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using MudServer.Game;
using MudServer.Hosting;

namespace BatchKit.IntegrationTests.Mud;

/// <summary>Over which broker the command "compare" sends.</summary>
[Trait("Lane", "slow: programs are started")]
public sealed class ComparisonTests(RabbitMqFixture fixture)
{
    private readonly CollectingTransport _output = new();
    private readonly BrokerAddress _address = new();

    [Fact]
    public async Task It_takes_a_broker_that_can_be_reached_and_says_so()
    {
        var server = await fixture.GetAsync();
        _address.SetUri(server.Address);

        var lines = await CompareAsync();

        Assert.Equal($"1000 lines, over RabbitMQ at {server.Host}:{server.Port}, which runs on this machine:", lines[0]);
        Assert.Matches(@"^  one by one     1000 sends +\d+\.\d ms$", lines[1]);
        Assert.Empty(_output.Messages);
    }

    [Fact]
    public async Task It_takes_the_simulated_one_where_no_broker_can_be_reached()
    {
        _address.SetUri(new Uri($"amqp://127.0.0.1:{FreePort.Take(1)[0]}"));

        var lines = await CompareAsync();

        Assert.Equal("1000 lines, over a simulated broker:", lines[0]);
        Assert.NotEmpty(_output.Messages);
    }

    private async Task<IReadOnlyList<string>> CompareAsync()
    {
        await using var output = new OutputBuffer(_output);
        var settings = new GameSettings(IsBuffered: true, ClosesConnections: true, "a simulated broker", FirstNode: 1, AwayLimit: TimeSpan.FromSeconds(60));
        return await new Comparison(output, settings, new LocalBroker(_address, Some.Name("mud")).TryOpenAsync, TimeProvider.System).RunAsync().WithinDeadline();
    }
}

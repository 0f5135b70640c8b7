using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.RabbitMQ;

namespace BatchKit.IntegrationTests.Broadcast;

public sealed class BroadcastOverRabbitMqTests(RabbitMqFixture broker)
{
    private static readonly OutputHandle Hall = OutputHandle.Named("hall");

    [Fact]
    public async Task The_senders_own_connection_on_another_node_is_excluded_and_everybody_else_hears_it()
    {
        var options = RabbitMqSome.Options(await broker.GetAsync());
        await using var first = await Gateway.StartAsync(options, node: 1);
        await using var second = await Gateway.StartAsync(options, node: 2);
        await using var transport = new RabbitMqTransport(options);
        await using var game = new OutputBuffer(transport);
        GatewayClient[] clients = [await first.ConnectAsync(), await first.ConnectAsync(), await second.ConnectAsync(), await second.ConnectAsync()];
        foreach (var client in clients)
            game.Write(client.Handle, ControlMessage.JoinGroup(Hall.Name!));
        await game.FlushAsync().WithinDeadline();
        var batchesBefore = game.GetStatistics().Batches;

        game.Write(Hall, "somebody speaks\n", new MessageHeader { ExcludedConnections = [clients[3].Handle] });
        await game.FlushAsync().WithinDeadline();
        var batches = game.GetStatistics().Batches - batchesBefore;
        foreach (var client in clients)
            game.Write(client.Handle, "end\n");

        Assert.Equal(1, batches);
        foreach (var client in clients[..3])
            Assert.Equal(["somebody speaks", "end"], await client.ReadLinesAsync(2));
        Assert.Equal(["end"], await clients[3].ReadLinesAsync(1));
    }

    [Fact]
    public async Task Joining_leaving_and_closing_keep_their_place_among_the_output()
    {
        var options = RabbitMqSome.Options(await broker.GetAsync());
        await using var gateway = await Gateway.StartAsync(options, node: 1);
        await using var transport = new RabbitMqTransport(options);
        await using var game = new OutputBuffer(transport);
        var (client, other) = (await gateway.ConnectAsync(), await gateway.ConnectAsync());
        game.Write(other.Handle, ControlMessage.JoinGroup(Hall.Name!));

        game.Write(Hall, "1 for the other\n");
        game.Write(client.Handle, "2 enter\n");
        game.Write(client.Handle, ControlMessage.JoinGroup(Hall.Name!));
        await game.FlushAsync().WithinDeadline();
        game.Write(Hall, "3 for both\n");
        await game.FlushAsync().WithinDeadline();
        game.Write(client.Handle, ControlMessage.LeaveGroup(Hall.Name!));
        game.Write(client.Handle, "4 left\n");
        await game.FlushAsync().WithinDeadline();
        game.Write(Hall, "5 for the other\n");
        await game.FlushAsync().WithinDeadline();
        game.Write(client.Handle, "6 bye\n");
        game.Write(client.Handle, ControlMessage.Close);
        await game.FlushAsync().WithinDeadline();

        Assert.Equal(["2 enter", "3 for both", "4 left", "6 bye", "(end)"], await client.ReadLinesAsync(5));
        Assert.Equal(["1 for the other", "3 for both", "5 for the other"], await other.ReadLinesAsync(3));
    }
}

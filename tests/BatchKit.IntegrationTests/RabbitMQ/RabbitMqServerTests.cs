using BatchKit.TestServers.RabbitMQ;
using RabbitMQ.Client;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>The tests' own broker does what the tests of the transports rely on.</summary>
public sealed class RabbitMqServerTests
{
    [Fact]
    public async Task A_killed_broker_starts_again_on_the_same_port_with_what_was_durable()
    {
        RequiredServer.SkipWhen(RabbitMqServer.WhyNotInstalled);
        await using var server = await RabbitMqServer.StartOwnAsync();
        var port = server.Port;
        await using (var connection = await new ConnectionFactory { Uri = server.Address }.CreateConnectionAsync())
        await using (var channel = await connection.CreateChannelAsync(new CreateChannelOptions(true, true)))
        {
            await channel.QueueDeclareAsync("kept", durable: true, exclusive: false, autoDelete: false);
            await channel.BasicPublishAsync(string.Empty, "kept", mandatory: true, new BasicProperties { Persistent = true }, new byte[] { 1 });
            await server.SyncDeclarationsAsync();
            await server.KillAsync();
        }

        await server.StartAsync();

        await using var again = await new ConnectionFactory { Uri = server.Address }.CreateConnectionAsync();
        await using var reader = await again.CreateChannelAsync();
        Assert.Equal(port, server.Port);
        Assert.Equal(1u, (await reader.QueueDeclarePassiveAsync("kept")).MessageCount);
    }
}

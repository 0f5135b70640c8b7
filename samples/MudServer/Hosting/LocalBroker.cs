using BatchKit.RabbitMQ;
using BatchKit.Transports;
using MudServer.Game;

namespace MudServer.Hosting;

/// <summary>Finds a broker that runs on this machine although no one named it, for the comparison alone. It starts none.</summary>
internal sealed class LocalBroker(BrokerAddress address, string prefix)
{
    private static readonly TimeSpan ConnectTimeout = TimeSpan.FromSeconds(2);

    /// <summary>Connects to the broker; null when it can't be reached.</summary>
    public async Task<ComparisonHop?> TryOpenAsync()
    {
        var rabbit = new RabbitMqOptions { ConnectTimeout = ConnectTimeout, Durable = false };
        MudBroker.Set(rabbit, address);
        // No receiver has it, so nothing of the comparison reaches a queue of the broker's owner.
        rabbit.Prefix = $"{prefix}-comparison";
        var transport = new RabbitMqTransport(rabbit);
        try
        {
            var first = MessageBatch.Create(Comparison.Group, new ProducerId(Node: 0, Random.Shared.NextInt64(), Partition: 0), number: 1, new BatchMessage("hello"u8.ToArray()));
            await transport.SendAsync(new[] { first }, CancellationToken.None);
        }
        catch (Exception exception) when (exception is IOException or BatchSendException)
        {
            await transport.DisposeAsync();
            return null;
        }

        var buffer = new OutputBuffer(transport);
        return new ComparisonHop(buffer, $"RabbitMQ at {address.Host}:{address.Port}, which runs on this machine", async () =>
        {
            await buffer.DisposeAsync();
            await transport.DisposeAsync();
        });
    }
}

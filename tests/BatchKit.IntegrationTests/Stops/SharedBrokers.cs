using System.Collections.Immutable;
using BatchKit.IntegrationTests.Mqtt;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.HostWorker;

namespace BatchKit.IntegrationTests.Stops;

/// <summary>A path over each of the shared brokers, which no other test uses, and the hosts on it.</summary>
public sealed class SharedBrokers(RabbitMqFixture rabbitMq, MosquittoFixture mosquitto, NatsFixture nats, PostgresFixture postgres)
{
    public static ImmutableArray<string> All { get; } = [BrokerPath.RabbitMq, BrokerPath.MassTransit, BrokerPath.Mqtt, BrokerPath.Nats, BrokerPath.PostgreSql];

    public static TheoryData<string> Transports => [.. All];

    /// <summary>Runs a test over a path, and removes the path's schema afterwards.</summary>
    public async Task UseAsync(string transport, Func<BrokerPath, Task> test)
    {
        if (transport == BrokerPath.PostgreSql)
        {
            await using var schema = await postgres.NewSchemaAsync();
            await test(new BrokerPath(transport, (await postgres.GetAsync()).ConnectionString, schema.Name));
            return;
        }

        var address = transport switch
        {
            BrokerPath.Mqtt => (await mosquitto.GetAsync()).Address,
            BrokerPath.Nats => (await nats.GetAsync()).Address,
            _ => (await rabbitMq.GetAsync()).Address,
        };
        await test(new BrokerPath(transport, address.ToString(), Some.Name("stop")));
    }
}

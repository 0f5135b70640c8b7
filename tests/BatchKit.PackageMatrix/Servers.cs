using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Nats;
using BatchKit.TestServers.Postgres;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.TestServers.Redis;

namespace BatchKit.PackageMatrix;

/// <summary>The real brokers and the database.</summary>
internal sealed class Servers(RabbitMqServer rabbitMq, MosquittoServer mosquitto, PostgresServer postgres, RedisServer redis, NatsServer nats) : IAsyncDisposable
{
    public RabbitMqServer RabbitMq => rabbitMq;

    public MosquittoServer Mosquitto => mosquitto;

    public PostgresServer Postgres => postgres;

    public RedisServer Redis => redis;

    public NatsServer Nats => nats;

    public static async Task<Servers> StartAsync()
    {
        var rabbitMq = RabbitMqServer.ConnectOrStartAsync();
        var mosquitto = MosquittoServer.ConnectOrStartAsync();
        var postgres = PostgresServer.ConnectOrStartAsync();
        var redis = RedisServer.ConnectOrStartAsync();
        var nats = NatsServer.ConnectOrStartAsync();
        return new Servers(await rabbitMq, await mosquitto, await postgres, await redis, await nats);
    }

    public async ValueTask DisposeAsync()
    {
        await rabbitMq.DisposeAsync();
        await mosquitto.DisposeAsync();
        await postgres.DisposeAsync();
        await redis.DisposeAsync();
        await nats.DisposeAsync();
    }
}

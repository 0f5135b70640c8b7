using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Postgres;
using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.PackageMatrix;

/// <summary>The real brokers and the database.</summary>
internal sealed class Servers(RabbitMqServer rabbitMq, MosquittoServer mosquitto, PostgresServer postgres) : IAsyncDisposable
{
    public RabbitMqServer RabbitMq => rabbitMq;

    public MosquittoServer Mosquitto => mosquitto;

    public PostgresServer Postgres => postgres;

    public static async Task<Servers> StartAsync()
    {
        var rabbitMq = RabbitMqServer.ConnectOrStartAsync();
        var mosquitto = MosquittoServer.ConnectOrStartAsync();
        var postgres = PostgresServer.ConnectOrStartAsync();
        return new Servers(await rabbitMq, await mosquitto, await postgres);
    }

    public async ValueTask DisposeAsync()
    {
        await rabbitMq.DisposeAsync();
        await mosquitto.DisposeAsync();
        await postgres.DisposeAsync();
    }
}

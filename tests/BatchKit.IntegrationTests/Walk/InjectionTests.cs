using BatchKit.Broadcast;
using BatchKit.MassTransit;
using BatchKit.Mqtt;
using BatchKit.Postgres;
using BatchKit.RabbitMQ;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Npgsql;

namespace BatchKit.IntegrationTests.Walk;

/// <summary>What a package registers for the unnamed buffer can be injected without a key, and that of a named buffer with its name.</summary>
public sealed class InjectionTests
{
    [Theory]
    [InlineData("")]
    [InlineData("game")]
    public async Task What_a_package_registers_can_be_injected(string name)
    {
        await HasAsync<RabbitMqTransport>(name, static builder => builder.UseRabbitMq());
        await HasAsync<RabbitMqReceiver>(name, static builder => builder.ReceiveFromRabbitMq(Next));
        await HasAsync<MassTransitTransport>(name, static builder => builder.UseMassTransit());
        await HasAsync<MassTransitReceiver>(name, static builder => builder.ReceiveFromMassTransit(Next));
        await HasAsync<MqttTransport>(name, static builder => builder.UseMqtt());
        await HasAsync<IMqttPublisher>(name, static builder => builder.UseMqtt());
        await HasAsync<MqttReceiver>(name, static builder => builder.ReceiveFromMqtt(Next, static options => options.EnvelopePrefix = "game"));
        await HasAsync<PostgresQueueTransport>(name, static builder => builder.UsePostgres());
        await HasAsync<PostgresQueueAdmin>(name, static builder => builder.UsePostgres());
        await HasAsync<PostgresOutbox>(name, static builder => builder.UsePostgresOutbox(Next));
        await HasAsync<BroadcastTransport>(name, static builder => builder.UseBroadcast());
        await HasAsync<FrameReceiver>(name, static builder => builder.AddFrameReceiver(Next));
        await HasAsync<OutputBuffer>(name, static builder => builder.UseBroadcast());
    }

    private static async Task HasAsync<T>(string name, Action<BatchKitBuilder> configure)
        where T : class
    {
        var services = new ServiceCollection().AddLogging();
        services.AddSingleton(NpgsqlDataSource.Create("Host=127.0.0.1;Username=no one"));
        configure(name.Length == 0 ? services.AddBatchKit() : services.AddBatchKit(name));
        await using var provider = services.BuildServiceProvider();

        var keyed = provider.GetRequiredKeyedService<T>(name);

        Assert.Same(name.Length == 0 ? keyed : null, provider.GetService<T>());
    }

    private static IBatchTransport Next(IServiceProvider services) => new NoTransport();

    private sealed class NoTransport : IBatchTransport
    {
        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => default;
    }
}

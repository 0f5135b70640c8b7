using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.Dolist;
using MassTransit;

namespace BatchKit.Benchmarks.OverMassTransit;

/// <summary>A bus that publishes and a bus that consumes, with MassTransit's own defaults; in memory one bus is both.</summary>
/// <param name="isOrdered">False when publishes are in flight together: MassTransit then reorders them.</param>
internal sealed class MassTransitEnds(bool isOrdered) : IDolistEnds
{
    private IBusControl _sender = null!;
    private IBusControl _receiver = null!;

    public Arrival Arrival { get; } = new(isOrdered);

    public static async Task<MassTransitEnds> StartOnRabbitMqAsync(bool isOrdered = true)
    {
        var address = await Broker.GetRabbitMqAsync();
        var ends = new MassTransitEnds(isOrdered);
        ends._sender = Bus.Factory.CreateUsingRabbitMq(bus => Connect(bus, address));
        ends._receiver = Bus.Factory.CreateUsingRabbitMq(bus =>
        {
            Connect(bus, address);
            bus.ReceiveEndpoint($"benchmark.{Guid.NewGuid():N}", endpoint =>
            {
                endpoint.AutoDelete = true;
                ends.Consume(endpoint);
            });
        });
        await ends._receiver.StartAsync();
        await ends._sender.StartAsync();
        return ends;
    }

    /// <summary>Sets a broker up so that nothing of <see cref="Payload"/> stays there.</summary>
    public static void Connect(IRabbitMqBusFactoryConfigurator bus, Uri address)
    {
        bus.Host(address);
        bus.Publish<Payload>(static topology => topology.AutoDelete = true);
    }

    public static async Task<MassTransitEnds> StartInMemoryAsync()
    {
        var ends = new MassTransitEnds(isOrdered: true);
        ends._sender = ends._receiver = Bus.Factory.CreateUsingInMemory(bus => bus.ReceiveEndpoint("benchmark", ends.Consume));
        await ends._receiver.StartAsync();
        return ends;
    }

    public ValueTask PublishAsync(byte[] bytes) => new(_sender.Publish(new Payload(bytes)));

    public async ValueTask DisposeAsync()
    {
        await _sender.StopAsync();
        if (!ReferenceEquals(_sender, _receiver))
            await _receiver.StopAsync();
    }

    private void Consume(IReceiveEndpointConfigurator endpoint)
    {
        // With more, MassTransit reorders, and the last line to arrive would not be the last that was written.
        endpoint.ConcurrentMessageLimit = 1;
        endpoint.Handler<Payload>(context =>
        {
            Arrival.Add(context.Message.Bytes);
            return Task.CompletedTask;
        });
    }
}

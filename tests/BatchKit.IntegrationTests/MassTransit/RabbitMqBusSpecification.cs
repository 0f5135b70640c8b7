using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.Testing;
using BatchKit.Testing.Specification;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.MassTransit;

[Trait("Lane", "night: one rule for each way to connect")]
public sealed class RabbitMqBusSpecification(RabbitMqFixture fixture) : TransportSpecification
{
    protected override TransportPromises Promises =>
        TransportPromises.Ordered | TransportPromises.Once | TransportPromises.RefusesMissingNodes;

    protected override int Cancellations => TestSupport.Cancellations.Count();

    // MassTransit and the client below it drop a message when a listener to their own activities throws; no adapter on top can have it again.
    protected override bool ThrowsFor(string source) => source.StartsWith("BatchKit", StringComparison.Ordinal);

    protected override async ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop)
    {
        var settings = MassTransitSome.Settings(await fixture.GetAsync(), Some.Name("mt"), configure: static options =>
        {
            options.UnroutableGrace = TimeSpan.Zero;
            // The rule of thousands of batches has thousands of confirms, one after the other, and none may take longer.
            options.PublishTimeout = TimeSpan.FromSeconds(10);
        });
        return await MassTransitHarness.ConnectAsync(ReceiverNode, settings, nextHop, Surroundings);
    }
}

using BatchKit.IntegrationTests.Groups;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.MassTransit;
using BatchKit.Testing;
using BatchKit.Transports;
using MassTransit;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>Groups over buses of the buffers' own on RabbitMQ.</summary>
[Trait("Lane", "night: one rule for each way to connect")]
public sealed class RabbitMqBusGroupTests(RabbitMqFixture fixture) : GroupSpecification
{
    protected override async Task<IGroupPath> ConnectAsync(int nodes) => new BusPath(MassTransitSome.Settings(await fixture.GetAsync(), Some.Name("groups")));
}

/// <summary>Groups over an in-memory bus that the nodes share.</summary>
[Trait("Lane", "night: one rule for each way to connect")]
public sealed class SharedBusGroupTests : GroupSpecification
{
    protected override async Task<IGroupPath> ConnectAsync(int nodes)
    {
        var bus = Bus.Factory.CreateUsingInMemory(static _ => { });
        await bus.StartAsync().WithinDeadline();
        return new BusPath(options => options.Bus = _ => bus, bus);
    }
}

/// <summary>Groups over the in-memory bus that a buffer has by default, which reaches one node.</summary>
[Trait("Lane", "night: one rule for each way to connect")]
public sealed class OwnBusGroupTests
{
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task The_member_on_the_only_node_gets_a_groups_output_once(bool usesLocal)
    {
        await using var path = new BusPath(static _ => { });

        await GroupSpecification.AssertOnceAsync(path, nodes: 1, usesLocal);
    }
}

/// <summary>Nodes on MassTransit buses.</summary>
internal sealed class BusPath(Action<MassTransitOptions> configure, IBusControl? shared = null) : IGroupPath
{
    public void Add(BatchKitBuilder builder, int node, IBatchTransport nextHop) => builder.UseMassTransit(configure).ReceiveFromMassTransit(_ => nextHop);

    public async Task<(IBatchTransport Remote, Func<BatchReceiverStatistics> Statistics)> StartedAsync(IServiceProvider services, int node)
    {
        var receiver = services.GetRequiredKeyedService<MassTransitReceiver>(string.Empty);
        await receiver.WaitUntilReadyAsync().WithinDeadline();
        return (services.GetRequiredKeyedService<MassTransitTransport>(string.Empty), receiver.GetStatistics);
    }

    public async ValueTask DisposeAsync()
    {
        if (shared is not null)
            await shared.StopAsync().WithinDeadline();
    }
}

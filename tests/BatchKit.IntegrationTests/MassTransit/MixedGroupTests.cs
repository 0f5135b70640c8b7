using BatchKit.IntegrationTests.Groups;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.MassTransit;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;
using MassTransit;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>Groups where some nodes use <c>BatchKit.RabbitMQ</c> and others <c>BatchKit.MassTransit</c>, with one prefix.</summary>
public sealed class MixedGroupTests(RabbitMqFixture fixture) : GroupSpecification
{
    protected override async Task<IGroupPath> ConnectAsync(int nodes) => await MixedPath.ConnectAsync(await fixture.GetAsync(), routesByMembers: false);
}

/// <summary>The same where the RabbitMQ nodes route groups by their members.</summary>
public sealed class MixedMemberGroupTests(RabbitMqFixture fixture) : GroupSpecification
{
    protected override async Task<IGroupPath> ConnectAsync(int nodes) => await MixedPath.ConnectAsync(await fixture.GetAsync(), routesByMembers: true);
}

/// <summary>The same where the MassTransit nodes use the application's bus.</summary>
public sealed class MixedApplicationBusGroupTests(RabbitMqFixture fixture) : GroupSpecification
{
    protected override async Task<IGroupPath> ConnectAsync(int nodes)
    {
        var server = await fixture.GetAsync();
        var bus = Bus.Factory.CreateUsingRabbitMq(configure => ApplicationBusTests.ConnectTo(server, configure));
        await bus.StartAsync().WithinDeadline();
        return await MixedPath.ConnectAsync(server, routesByMembers: false, bus);
    }
}

/// <summary>Odd nodes use the client's adapter, even ones MassTransit's. A node number moves from one to the other with its queue.</summary>
internal sealed class MixedPath(RabbitMqServer server, bool routesByMembers, IBusControl? bus) : IGroupPath
{
    private readonly string _prefix = Some.Name("mixed");

    /// <summary>Connects the nodes when each number has had a receiver of the other adapter, whose queue is there still.</summary>
    public static async Task<MixedPath> ConnectAsync(RabbitMqServer server, bool routesByMembers, IBusControl? bus = null)
    {
        var path = new MixedPath(server, routesByMembers, bus);
        await using var earlier = new RabbitMqReceiver(path.Configure(new RabbitMqOptions()), 0, new BatchReceiver(new CollectingTransport()));
        await earlier.StartAsync(CancellationToken.None).WithinDeadline();
        return path;
    }

    public void Add(BatchKitBuilder builder, int node, IBatchTransport nextHop)
    {
        if (int.IsOddInteger(node))
        {
            builder.UseRabbitMq(options => Configure(options)).ReceiveFromRabbitMq(_ => nextHop);
            return;
        }

        builder.UseMassTransit(options =>
        {
            MassTransitSome.Settings(server, _prefix)(options);
            options.RabbitMq = bus is null ? options.RabbitMq : null;
            options.Bus = bus is null ? null : _ => bus;
        }).ReceiveFromMassTransit(_ => nextHop);
    }

    public async Task<(IBatchTransport Remote, Func<BatchReceiverStatistics> Statistics)> StartedAsync(IServiceProvider services, int node)
    {
        if (int.IsOddInteger(node))
            return (services.GetRequiredKeyedService<RabbitMqTransport>(string.Empty), services.GetRequiredKeyedService<RabbitMqReceiver>(string.Empty).GetStatistics);
        var receiver = services.GetRequiredKeyedService<MassTransitReceiver>(string.Empty);
        await receiver.WaitUntilReadyAsync().WithinDeadline();
        return (services.GetRequiredKeyedService<MassTransitTransport>(string.Empty), receiver.GetStatistics);
    }

    public async ValueTask DisposeAsync()
    {
        if (bus is not null)
            await bus.StopAsync().WithinDeadline();
    }

    private RabbitMqOptions Configure(RabbitMqOptions options)
    {
        RabbitMqSome.Configure(options, server, server.Port, _prefix);
        options.RouteGroupsByMembers = routesByMembers;
        return options;
    }
}

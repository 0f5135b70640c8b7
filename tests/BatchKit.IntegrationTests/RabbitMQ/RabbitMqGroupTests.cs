using BatchKit.IntegrationTests.Groups;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>Groups over RabbitMQ.</summary>
public sealed class RabbitMqGroupTests(RabbitMqFixture fixture) : GroupSpecification
{
    protected override async Task<IGroupPath> ConnectAsync(int nodes) => new BrokerPath(await fixture.GetAsync());

    private sealed class BrokerPath(RabbitMqServer server) : IGroupPath
    {
        private readonly string _prefix = Some.Name("groups");

        public void Add(BatchKitBuilder builder, int node, IBatchTransport nextHop) => builder
            .UseRabbitMq(options => RabbitMqSome.Configure(options, server, server.Port, _prefix))
            .ReceiveFromRabbitMq(_ => nextHop);

        public Task<(IBatchTransport Remote, Func<BatchReceiverStatistics> Statistics)> StartedAsync(IServiceProvider services, int node) =>
            Task.FromResult<(IBatchTransport, Func<BatchReceiverStatistics>)>(
                (services.GetRequiredKeyedService<RabbitMqTransport>(string.Empty), services.GetRequiredKeyedService<RabbitMqReceiver>(string.Empty).GetStatistics));

        public ValueTask DisposeAsync() => ValueTask.CompletedTask;
    }
}

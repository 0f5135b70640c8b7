using BatchKit.IntegrationTests.Handlers;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>Handlers of frames over RabbitMQ.</summary>
public sealed class RabbitMqHandlerTests(RabbitMqFixture fixture) : HandlerSpecification
{
    private protected override async Task<HandlerPath> ConnectAsync() => new NodePath(await fixture.GetAsync());

    private sealed class NodePath(RabbitMqServer server) : HandlerPath
    {
        private readonly string _prefix = Some.Name("handlers");

        public override OutputHandle Destination { get; } = OutputHandle.Connection(node: 2, 7);

        public override void AddSender(BatchKitBuilder builder) => builder.UseRabbitMq(Configure);

        public override void AddReceiver(BatchKitBuilder builder) => builder.ReceiveFromRabbitMq<JournalHandler>(Configure);

        public override Task<long> CountRefusedAsync(IServiceProvider services) => Task.FromResult(services.GetRequiredKeyedService<RabbitMqReceiver>(string.Empty).GetStatistics().RefusedMessages);

        public override ValueTask DisposeAsync() => ValueTask.CompletedTask;

        private void Configure(RabbitMqOptions options) => RabbitMqSome.Configure(options, server, server.Port, _prefix);
    }
}

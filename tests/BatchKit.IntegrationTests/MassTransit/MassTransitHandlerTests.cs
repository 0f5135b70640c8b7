using BatchKit.IntegrationTests.Handlers;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.MassTransit;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>Handlers of frames over MassTransit on RabbitMQ.</summary>
public sealed class MassTransitHandlerTests(RabbitMqFixture fixture) : HandlerSpecification
{
    private protected override async Task<HandlerPath> ConnectAsync() => new BusHandlerPath(await fixture.GetAsync());

    private sealed class BusHandlerPath(RabbitMqServer server) : HandlerPath
    {
        private readonly Action<MassTransitOptions> _configure = MassTransitSome.Settings(server, Some.Name("handlers"));

        public override OutputHandle Destination { get; } = OutputHandle.Connection(node: 2, 7);

        public override void AddSender(BatchKitBuilder builder) => builder.UseMassTransit(_configure);

        public override void AddReceiver(BatchKitBuilder builder) => builder.ReceiveFromMassTransit<JournalHandler>(_configure);

        public override Task ReadyAsync(IServiceProvider services) => services.GetRequiredKeyedService<MassTransitReceiver>(string.Empty).WaitUntilReadyAsync();

        public override Task<long> CountRefusedAsync(IServiceProvider services) => Task.FromResult(services.GetRequiredKeyedService<MassTransitReceiver>(string.Empty).GetStatistics().RefusedMessages);

        public override ValueTask DisposeAsync() => ValueTask.CompletedTask;
    }
}

using BatchKit.IntegrationTests.Groups;
using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>Groups over MQTT, in envelope mode.</summary>
[Trait("Lane", "night: one rule for each way to connect")]
public sealed class MqttGroupTests(MosquittoFixture fixture) : GroupSpecification
{
    protected override async Task<IGroupPath> ConnectAsync(int nodes) => new BrokerPath(await fixture.GetAsync());

    private sealed class BrokerPath(MosquittoServer server) : IGroupPath
    {
        private readonly string _prefix = Some.Name("groups");

        public void Add(BatchKitBuilder builder, int node, IBatchTransport nextHop) => builder
            .UseMqtt(options =>
            {
                MqttSome.Configure(options, server.Address);
                options.EnvelopePrefix = _prefix;
            })
            .ReceiveFromMqtt(_ => nextHop);

        public Task<(IBatchTransport Remote, Func<BatchReceiverStatistics> Statistics)> StartedAsync(IServiceProvider services, int node) =>
            Task.FromResult<(IBatchTransport, Func<BatchReceiverStatistics>)>(
                (services.GetRequiredKeyedService<MqttTransport>(string.Empty), services.GetRequiredKeyedService<MqttReceiver>(string.Empty).GetStatistics));

        public ValueTask DisposeAsync() => ValueTask.CompletedTask;
    }
}

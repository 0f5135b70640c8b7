using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.IntegrationTests.Cluster;

/// <summary>A cluster of three brokers, to be killed and frozen one by one; started by the first test that asks.</summary>
public sealed class ClusterFixture : IAsyncLifetime
{
    private RabbitMqCluster? _cluster;

    public ValueTask InitializeAsync() => ValueTask.CompletedTask;

    /// <summary>The cluster; tests of one class run one after the other.</summary>
    public async Task<RabbitMqCluster> GetAsync()
    {
        RequiredServer.SkipWhen(RabbitMqServer.WhyNotInstalled);
        _cluster ??= await RabbitMqCluster.StartAsync();
        await _cluster.MendAsync();
        return _cluster;
    }

    public async ValueTask DisposeAsync()
    {
        if (_cluster is not null)
            await _cluster.DisposeAsync();
    }
}

using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.IntegrationTests.Cluster;

/// <summary>A cluster of three brokers, to be killed and frozen one by one; started by the first test that asks.</summary>
public sealed class ClusterFixture : IAsyncLifetime
{
    /// <summary>Set to 1, it has the tests run: three brokers take minutes beside other tests on two cores.</summary>
    private const string RunVariable = "BATCHKIT_TEST_CLUSTER";

    private RabbitMqCluster? _cluster;

    public ValueTask InitializeAsync() => ValueTask.CompletedTask;

    /// <summary>The cluster; tests of one class run one after the other.</summary>
    public async Task<RabbitMqCluster> GetAsync()
    {
        Assert.SkipUnless(Environment.GetEnvironmentVariable(RunVariable) == "1", $"Tests of a cluster run where {RunVariable} is 1: three brokers take minutes beside other tests on two cores.");
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

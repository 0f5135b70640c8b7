using System.Globalization;
using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.IntegrationTests.Cluster;

/// <summary>What holds over a cluster of three brokers with quorum queues while brokers are killed, frozen and restarted under load.</summary>
[Trait("Lane", "faults: a cluster of three brokers takes minutes")]
public sealed class RabbitMqClusterTests(ClusterFixture fixture, ITestOutputHelper log) : IClassFixture<ClusterFixture>
{
    /// <summary>How often each fault is repeated; once unless this environment variable says otherwise. The recovery times are in the test's output.</summary>
    private const string RoundsVariable = "BATCHKIT_TEST_CLUSTER_ROUNDS";

    private const int Several = 300;

    public static TheoryData<string> Transports => ["RabbitMQ", "MassTransit"];

    private static int Rounds => int.Parse(Environment.GetEnvironmentVariable(RoundsVariable) ?? "1", CultureInfo.InvariantCulture);

    [Theory]
    [MemberData(nameof(Transports))]
    public Task Nothing_is_lost_doubled_or_reordered_when_the_queues_leader_is_killed(string transport) => RepeatAsync(transport, async (cluster, path) =>
    {
        var leader = await cluster.FindLeaderAsync(path.Queue, cluster.Nodes[0]);

        await leader.KillAsync();
        await path.WaitForMoreAsync(Several);
    });

    [Theory]
    [MemberData(nameof(Transports))]
    public Task Nothing_is_lost_doubled_or_reordered_when_a_follower_is_killed(string transport) => RepeatAsync(transport, async (cluster, path) =>
    {
        var leader = await cluster.FindLeaderAsync(path.Queue, cluster.Nodes[0]);
        var follower = cluster.Nodes.First(node => node != leader);

        await follower.KillAsync();
        await path.WaitForMoreAsync(Several);
    });

    [Theory]
    [MemberData(nameof(Transports))]
    public Task Without_a_majority_nothing_is_confirmed_and_everything_arrives_once_it_is_back(string transport) => RepeatAsync(transport, async (cluster, path) =>
    {
        var leader = await cluster.FindLeaderAsync(path.Queue, cluster.Nodes[0]);
        var other = cluster.Nodes.First(node => node != leader);
        await Task.WhenAll(leader.KillAsync(), other.KillAsync());
        // The first one may have been confirmed in part before the brokers died, and what was confirmed is counted behind the failure.
        await WaitForFailedSendsAsync(path, 2);
        var confirmed = path.Output.GetStatistics().AcknowledgedMessages;

        await WaitForFailedSendsAsync(path, 3);

        Assert.Equal(confirmed, path.Output.GetStatistics().AcknowledgedMessages);
    });

    [Theory]
    [MemberData(nameof(Transports))]
    public Task Nothing_is_lost_doubled_or_reordered_when_the_queues_leader_is_cut_off(string transport) => RepeatAsync(transport, async (cluster, path) =>
    {
        var leader = await cluster.FindLeaderAsync(path.Queue, cluster.Nodes[0]);

        leader.Freeze();
        try
        {
            await path.WaitForMoreAsync(Several);
        }
        finally
        {
            leader.Thaw();
        }
    });

    [Theory]
    [MemberData(nameof(Transports))]
    public Task Nothing_is_lost_doubled_or_reordered_while_each_broker_is_restarted_in_turn(string transport) => RepeatAsync(transport, async (cluster, path) =>
    {
        foreach (var node in cluster.Nodes)
        {
            await node.StopAsync();
            await path.WaitForMoreAsync(Several);
            await node.StartAsync();
            await path.WaitForMoreAsync(Several);
        }
    });

    [Theory]
    [MemberData(nameof(Transports))]
    public Task Nothing_is_lost_doubled_or_reordered_when_another_broker_becomes_the_leader(string transport) => RepeatAsync(transport, async (cluster, path) =>
    {
        var leader = await cluster.FindLeaderAsync(path.Queue, cluster.Nodes[0]);
        var follower = cluster.Nodes.First(node => node != leader);

        await cluster.MoveLeaderAsync(path.Queue, follower);
        await path.WaitForMoreAsync(Several);
    });

    [Theory]
    [MemberData(nameof(Transports))]
    public Task A_consumer_that_the_broker_cancels_is_replaced(string transport) => RepeatAsync(transport, async (cluster, path) =>
    {
        // The broker deletes what waits in the queue too, and returns what comes before the receiver has declared it again, so no one writes meanwhile.
        await path.PauseAsync();
        await cluster.Nodes[0].ControlAsync("delete_queue", path.Queue);
        await cluster.WaitForConsumerAsync(path.Queue);
        path.Write();
        await path.WaitForMoreAsync(Several);
    });

    /// <param name="transport">What the path goes over.</param>
    /// <param name="fault">Makes a fault under load. Brokers that it stopped are started again afterwards.</param>
    private async Task RepeatAsync(string transport, Func<RabbitMqCluster, ClusterPath, Task> fault)
    {
        var cluster = await fixture.GetAsync();
        await using var path = await ClusterPath.StartAsync(cluster, transport);
        path.Write();
        var pauses = new List<TimeSpan>();

        for (var round = 0; round < Rounds; round++)
        {
            await path.WaitForMoreAsync(Several);
            path.Times.TakeLongest();
            try
            {
                await fault(cluster, path);
            }
            catch (Exception)
            {
                log.WriteLine(path.Log.Text);
                throw;
            }

            await cluster.MendAsync();
            await path.WaitForMoreAsync(Several);
            pauses.Add(path.Times.TakeLongest());
        }

        await path.AssertAllArrivedOnceAndInOrderAsync();
        pauses.Sort();
        log.WriteLine($"{transport}: {path.Arrived.MessageCount} messages arrived, {path.ReportedMessages} were reported as lost. The longest pause of each of {Rounds} rounds: p50 {Seconds(pauses[pauses.Count / 2])} s, "
            + $"worst {Seconds(pauses[^1])} s ({string.Join(' ', pauses.Select(Seconds))})");
    }

    private static string Seconds(TimeSpan time) => time.TotalSeconds.ToString("0.0", CultureInfo.InvariantCulture);

    private static Task WaitForFailedSendsAsync(ClusterPath path, int more)
    {
        var enough = path.Output.GetStatistics().FailedSends + more;
        return Until.TrueAsync(() => path.Output.GetStatistics().FailedSends >= enough);
    }
}

using System.Globalization;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Postgres;

namespace BatchKit.Postgres.Tests.Failover;

/// <summary>What holds while connections are cut at random, in the middle of statements and of answers.</summary>
[Trait("Lane", "faults: connections are cut at random")]
public sealed class CutConnectionTests(PostgresFixture fixture, ITestOutputHelper log)
{
    /// <summary>How many cuts there are; 10 unless this environment variable says otherwise.</summary>
    private const string CutsVariable = "BATCHKIT_TEST_CUTS";

    /// <summary>The seed of their places; one at random unless this environment variable says otherwise.</summary>
    private const string SeedVariable = "BATCHKIT_TEST_SEED";

    // What three writers and their workers send to the server within a few milliseconds.
    private const int MostBytesUntilCut = 20_000;

    private static int Cuts => Read(CutsVariable, 10);

    [Fact]
    public async Task A_pool_whose_connections_are_cut_at_random_loses_nothing_and_keeps_the_order()
    {
        var server = await fixture.GetAsync();
        var seed = Read(SeedVariable, Random.Shared.Next());
        var random = new Random(seed);
        log.WriteLine($"{Cuts} cuts, {SeedVariable}={seed}");
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        await using var path = await DurablePath.StartAsync($"{server.ConnectionString};Host=127.0.0.1;Port={proxy.Port}");
        await using var schema = TestSchema.On(server, path.Schema);
        path.Write();

        for (var cut = 0; cut < Cuts; cut++)
        {
            if (random.Next(4) == 0)
                proxy.ResetAll();
            else
                proxy.CutAfter(random.Next(MostBytesUntilCut));
            await path.WaitForMoreAsync(random.Next(1, 50));
        }

        await path.StopWritingAsync();
        await Task.WhenAll(path.Flows.Select(flow => flow.WaitForAllAsync()));
        foreach (var flow in path.Flows)
            log.WriteLine($"{flow.Handle.Name}: {flow.Acknowledged} acknowledged, {flow.Arrived.Length - flow.Count} arrived again");
        path.Queue.AssertAllArrived();
        path.Ordered.AssertAllArrivedInOrder();
        path.Outbox.AssertAllArrivedInOrder();
        Assert.Equal(path.Outbox.Count, path.Outbox.Arrived.Length);
    }

    private static int Read(string variable, int usual) => int.Parse(Environment.GetEnvironmentVariable(variable) ?? usual.ToString(CultureInfo.InvariantCulture), CultureInfo.InvariantCulture);
}

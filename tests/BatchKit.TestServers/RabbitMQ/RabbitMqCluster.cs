using System.Diagnostics;
using System.Globalization;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.RabbitMQ;

/// <summary>A RabbitMQ cluster on this machine: each node is a child process with a data folder, a name and ports of its own, and may be killed, frozen and started again.</summary>
/// <remarks>It needs the installed RabbitMQ and some 150 MB of memory a node. A frozen node is declared dead after 4 to 5 seconds. After a partition the brokers of the smaller side restart (autoheal).</remarks>
public sealed class RabbitMqCluster : IAsyncDisposable
{
    private static readonly TimeSpan MendLimit = TimeSpan.FromMinutes(3);

    // Each look starts a program of Erlang's, which takes a processor for a second.
    private static readonly TimeSpan MendPause = TimeSpan.FromSeconds(2);

    // How long brokers that run get to find each other. On a busy machine three did not within three minutes of a frozen broker, for a cause that was not found.
    private static readonly TimeSpan MergeLimit = TimeSpan.FromMinutes(1);

    private readonly ServerProcess _portMapper;

    private RabbitMqCluster(ServerProcess portMapper, RabbitMqServer[] nodes)
    {
        _portMapper = portMapper;
        Nodes = nodes;
    }

    /// <summary>The nodes, whether they run or not.</summary>
    public IReadOnlyList<RabbitMqServer> Nodes { get; }

    /// <summary>Where the nodes listen, each as <c>host:port</c>.</summary>
    public IList<string> Hosts => [.. Nodes.Select(node => string.Create(CultureInfo.InvariantCulture, $"{node.Host}:{node.Port}"))];

    /// <summary>Starts a cluster.</summary>
    /// <exception cref="ServerStartException">RabbitMQ is not installed, or a node did not start.</exception>
    public static async Task<RabbitMqCluster> StartAsync(int count = 3)
    {
        var ports = FreePort.Take(count + 1);
        var cookie = Guid.NewGuid().ToString("N").ToUpperInvariant();
        var nodes = Enumerable.Range(0, count)
            .Select(place => RabbitMqServer.CreateNode(new RabbitMqNodeNames(ports[..count], place, ports[count], cookie)))
            .ToArray();
        return await ServerStart.OrDisposeAsync(new RabbitMqCluster(nodes[0].StartPortMapper(), nodes), async cluster =>
        {
            // The first one founds the cluster, so that it is there for the others to join.
            await nodes[0].StartAsync();
            await cluster.MendAsync();
        });
    }

    /// <summary>Starts all nodes that do not run, at once, because a node that left a majority behind waits for the others. Then waits until each node sees all others, as after a partition. Nodes that do not
    /// find each other are killed and started again.</summary>
    public async Task MendAsync()
    {
        await StartStoppedAsync();
        try
        {
            await WaitUntilAllSeeAllAsync(MergeLimit);
        }
        catch (ServerStartException)
        {
            await Task.WhenAll(Nodes.Select(static node => node.KillAsync()));
            await StartStoppedAsync();
            await WaitUntilAllSeeAllAsync(MendLimit);
        }
    }

    /// <summary>The node that leads a quorum queue, or holds a classic one.</summary>
    /// <param name="queue">The queue's name.</param>
    /// <param name="asked">A node that runs.</param>
    public async Task<RabbitMqServer> FindLeaderAsync(string queue, RabbitMqServer asked)
    {
        var rows = await asked.ControlAsync("list_queues", "--quiet", "--no-table-headers", "name", "leader", "pid");
        var row = rows.Split('\n').FirstOrDefault(row => row.StartsWith(queue + "\t", StringComparison.Ordinal))
            ?? throw new InvalidOperationException($"There is no queue {queue}: {rows}");
        return Nodes.First(node => row.Contains(node.NodeName!, StringComparison.Ordinal));
    }

    /// <summary>Has another node lead a quorum queue, and waits until it does.</summary>
    /// <param name="queue">The queue's name.</param>
    /// <param name="next">The node that is to lead it.</param>
    public Task MoveLeaderAsync(string queue, RabbitMqServer next) => WaitUntilAsync(async () =>
    {
        var leader = await FindLeaderAsync(queue, next);
        if (leader == next)
            return true;
        await leader.EvaluateAsync($"ra:transfer_leadership({{'%2F_{queue}', node()}}, {{'%2F_{queue}', '{next.NodeName}'}})");
        return false;
    }, $"{next.NodeName} does not lead {queue}");

    /// <summary>Waits until a queue has a consumer.</summary>
    public Task WaitForConsumerAsync(string queue) => WaitUntilAsync(
        async () => (await Nodes[0].ControlAsync("list_consumers", "--quiet", "--no-table-headers", "queue_name")).Split('\n').Contains(queue, StringComparer.Ordinal), $"{queue} has no consumer");

    /// <inheritdoc/>
    public async ValueTask DisposeAsync()
    {
        foreach (var node in Nodes)
            await node.DisposeAsync();
        _portMapper.Dispose();
    }

    private static async Task WaitUntilAsync(Func<Task<bool>> condition, string complaint, TimeSpan? limit = null)
    {
        var began = Stopwatch.GetTimestamp();
        while (true)
        {
            InvalidOperationException? last = null;
            try
            {
                if (await condition())
                    return;
            }
            catch (InvalidOperationException failure)
            {
                // A broker that restarts evaluates nothing.
                last = failure;
            }

            if (Stopwatch.GetElapsedTime(began) > (limit ?? MendLimit))
                throw new ServerStartException($"{complaint} after {limit ?? MendLimit}.", last);
            await Task.Delay(MendPause);
        }
    }

    private Task StartStoppedAsync() => Task.WhenAll(Nodes.Where(static node => !node.IsRunning).Select(static node => node.StartAsync()));

    private Task WaitUntilAllSeeAllAsync(TimeSpan limit) => WaitUntilAsync(async () => await CountSeenAsync() == Nodes.Count * Nodes.Count, "Some brokers do not see all others", limit);

    // How many brokers the nodes see, themselves included. A broker that was cut off sees no other until it has restarted.
    private async Task<int> CountSeenAsync()
    {
        var seen = await Nodes[0].EvaluateAsync("[rpc:call(N, rabbit_mnesia, cluster_nodes, [running]) || N <- [node() | nodes()], rpc:call(N, rabbit, is_running, [])]");
        return seen.Split("batchkit", StringSplitOptions.None).Length - 1;
    }
}

using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Groups;

/// <summary>A group's output reaches each member once, whichever node writes it. Each path between nodes inherits these tests.</summary>
public abstract class GroupSpecification
{
    [Theory]
    [InlineData(1, false)]
    [InlineData(1, true)]
    [InlineData(2, false)]
    [InlineData(2, true)]
    [InlineData(3, false)]
    [InlineData(3, true)]
    public async Task Each_member_gets_a_groups_output_once_from_each_node(int nodes, bool usesLocal)
    {
        await using var path = await ConnectAsync(nodes);

        await AssertOnceAsync(path, nodes, usesLocal);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_group_written_where_no_local_route_is_reaches_the_members_of_the_same_node_number(bool usesLocal)
    {
        var group = Some.Group();
        await using var path = await ConnectAsync(1);
        await using var gateway = await StartAsync(path, node: 0, usesLocal);
        var elsewhere = Some.Producer(node: 0);

        await gateway.Remote.SendAsync(new[] { Some.Batch(group, elsewhere, 1, "from another process") }, CancellationToken.None).AsTask().WithinDeadline();

        await gateway.Arrived.WaitForMessagesAsync(1);
        Assert.Equal(["from another process"], gateway.Arrived.Texts);
    }

    /// <summary>Creates what the nodes of one test share.</summary>
    protected abstract Task<IGroupPath> ConnectAsync(int nodes);

    /// <summary>Writes to a group from each node, by its buffer unless said otherwise, and checks that the member on each node gets each output once.</summary>
    internal static async Task AssertOnceAsync(IGroupPath path, int nodes, bool usesLocal, Func<GroupNode, OutputHandle, string, Task>? write = null)
    {
        var group = Some.Group();
        var started = new List<GroupNode>();
        try
        {
            for (var node = 0; node < nodes; node++)
                started.Add(await StartAsync(path, node, usesLocal));

            foreach (var writer in started)
                await (write ?? WriteAsync)(writer, group, $"from {writer.Node}");

            // Every node receives every frame, so a double or a loss shows when all are counted.
            foreach (var member in started)
                await Until.TrueAsync(() => member.Statistics().ReceivedBatches == nodes && member.Arrived.MessageCount >= nodes);
            var expected = started.Select(writer => $"from {writer.Node}").ToArray();
            Assert.All(started, member => Assert.Equal(expected, member.Arrived.Texts.Order(StringComparer.Ordinal)));
        }
        finally
        {
            foreach (var node in started)
                await node.DisposeAsync();
        }
    }

    private static async Task WriteAsync(GroupNode writer, OutputHandle group, string text)
    {
        writer.Output.Write(group, Some.Bytes(text));
        await writer.Output.FlushAsync().WithinDeadline();
    }

    private static async Task<GroupNode> StartAsync(IGroupPath path, int node, bool usesLocal)
    {
        var arrived = new CollectingTransport();
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        builder.Services.AddLogging();
        var buffer = builder.Services.AddBatchKit(options => options.Node = node);
        if (usesLocal)
            buffer.UseLocal(_ => arrived);
        path.Add(buffer, node, arrived);
        var host = builder.Build();
        await host.StartAsync().WithinDeadline();
        var started = await path.StartedAsync(host.Services, node);
        return new GroupNode(host, node, arrived, started.Remote, started.Statistics);
    }
}

/// <summary>What connects the nodes of a test: adds a node's way out and in, and finds them when its host has started.</summary>
public interface IGroupPath : IAsyncDisposable
{
    void Add(BatchKitBuilder builder, int node, IBatchTransport nextHop);

    Task<(IBatchTransport Remote, Func<BatchReceiverStatistics> Statistics)> StartedAsync(IServiceProvider services, int node);
}

/// <summary>A node with one member of the group, as a host runs it.</summary>
internal sealed class GroupNode(IHost host, int node, CollectingTransport arrived, IBatchTransport remote, Func<BatchReceiverStatistics> statistics) : IAsyncDisposable
{
    public int Node => node;

    public CollectingTransport Arrived => arrived;

    public IBatchTransport Remote => remote;

    public Func<BatchReceiverStatistics> Statistics => statistics;

    public OutputBuffer Output { get; } = host.Services.GetRequiredService<OutputBuffer>();

    public async ValueTask DisposeAsync()
    {
        await host.StopAsync();
        await ((IAsyncDisposable)host).DisposeAsync();
    }
}

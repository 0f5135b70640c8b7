using System.Threading.Channels;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Groups;

/// <summary>Groups over a frame transport whose broker is a queue in memory for each node.</summary>
public sealed class FrameTransportGroupTests : GroupSpecification
{
    protected override Task<IGroupPath> ConnectAsync(int nodes) => Task.FromResult<IGroupPath>(new QueuePath(nodes));

    private sealed class QueuePath(int nodes) : IGroupPath
    {
        private readonly Channel<byte[]>[] _queues = [.. Enumerable.Range(0, nodes).Select(_ => Channel.CreateUnbounded<byte[]>())];
        private readonly List<Task> _loops = [];

        public void Add(BatchKitBuilder builder, int node, IBatchTransport nextHop) => builder
            .UseFrameTransport(_ => (frame, _) =>
            {
                for (var node = 0; node < nodes; node++)
                {
                    if (frame.Destination.IsAll || frame.Destination.Node == node)
                        _queues[node].Writer.TryWrite(frame.Bytes.ToArray());
                }

                return ValueTask.CompletedTask;
            })
            .AddFrameReceiver(_ => nextHop);

        public Task<(IBatchTransport Remote, Func<BatchReceiverStatistics> Statistics)> StartedAsync(IServiceProvider services, int node)
        {
            var receiver = services.GetRequiredService<FrameReceiver>();
            _loops.Add(Task.Run(async () =>
            {
                await foreach (var frame in _queues[node].Reader.ReadAllAsync())
                    await receiver.ReceiveAsync(frame, CancellationToken.None);
            }));
            return Task.FromResult<(IBatchTransport, Func<BatchReceiverStatistics>)>((services.GetRequiredKeyedService<FrameTransport>(string.Empty), receiver.GetStatistics));
        }

        public async ValueTask DisposeAsync()
        {
            foreach (var queue in _queues)
                queue.Writer.TryComplete();
            await Task.WhenAll(_loops).WithinDeadline();
        }
    }
}

/// <summary>Groups of a node that has its local route alone.</summary>
public sealed class LocalGroupTests
{
    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    public async Task A_group_on_one_node_without_a_broker_gets_its_output_once(int node)
    {
        var arrived = new CollectingTransport();
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        builder.Services.AddLogging().AddBatchKit(options => options.Node = node).UseLocal(_ => arrived);
        using var host = builder.Build();
        await host.StartAsync().WithinDeadline();
        var output = host.Services.GetRequiredService<OutputBuffer>();

        output.Write(Some.Group(), "once"u8);
        await output.FlushAsync().WithinDeadline();

        await host.StopAsync().WithinDeadline();
        Assert.Equal(["once"], arrived.Texts);
    }
}

using System.Diagnostics;
using System.Globalization;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;
using RabbitMQ.Client;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>What one broker takes of a game with many gateways, in full where <see cref="RunVariable"/> is 1. The rates are in the tests' output and never asserted; benchmarks/results/scale.md calculates with them.</summary>
[Trait("Lane", "night: many nodes take all cores")]
public sealed class RabbitMqRateTests(OwnRabbitMqFixture fixture) : IClassFixture<OwnRabbitMqFixture>
{
    private const string RunVariable = "BATCHKIT_TEST_RATES";
    private const int BoundAtOnce = 512;
    private const int LineBytes = 1000;

    // In full they take a minute. Otherwise they show that they still work.
    private static readonly bool IsFull = Environment.GetEnvironmentVariable(RunVariable) == "1";
    private static readonly int Nodes = IsFull ? 100 : 5;
    private static readonly int Bindings = IsFull ? 20_000 : 1000;
    private static readonly int Sends = IsFull ? 200 : 8;

    [Theory]
    [InlineData(RabbitMqQueueType.Classic, true, 1)]
    [InlineData(RabbitMqQueueType.Classic, true, 8)]
    [InlineData(RabbitMqQueueType.Classic, false, 8)]
    [InlineData(RabbitMqQueueType.Quorum, true, 8)]
    public async Task Each_send_reaches_each_node_as_a_frame_of_its_own(RabbitMqQueueType queueType, bool durable, int partitions)
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => (options.QueueType, options.Durable) = (queueType, durable));

        await SendAsync(options, partitions, static (node, _) => OutputHandle.Connection(node, 1), expected: Nodes * Sends);
    }

    [Theory]
    [InlineData(RabbitMqQueueType.Classic, true)]
    [InlineData(RabbitMqQueueType.Classic, false)]
    [InlineData(RabbitMqQueueType.Quorum, true)]
    public async Task A_groups_frame_reaches_each_node_from_one_publish(RabbitMqQueueType queueType, bool durable)
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => (options.QueueType, options.Durable) = (queueType, durable));

        await SendAsync(options, partitions: 8, static (_, partition) => OutputHandle.Named($"group-{partition}"), expected: Nodes * Sends, framesOfSend: 1);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_node_binds_the_keys_of_many_groups(bool durable)
    {
        var server = await fixture.GetAsync();
        var topology = new RabbitMqTopology(RabbitMqSome.Options(server, options => options.Durable = durable));
        await using var connection = await new ConnectionFactory { Uri = server.Address }.CreateConnectionAsync();
        await using var channel = await connection.CreateChannelAsync();
        var before = await CountBindingsAsync(server);
        var groups = Enumerable.Range(0, Bindings).Select(static group => $"room-{group}").ToArray();

        foreach (var node in new[] { 1, 2 })
        {
            await topology.DeclareQueueAsync(channel, node, takesAll: false, CancellationToken.None);
            await topology.RenewGroupExchangeAsync(channel, node, CancellationToken.None);

            var memory = await MeasureMemoryAsync(server);
            var began = Stopwatch.GetTimestamp();
            foreach (var some in groups.Chunk(BoundAtOnce))
                await topology.BindGroupsAsync(channel, node, some, [], CancellationToken.None);
            var time = Stopwatch.GetElapsedTime(began);
            Report($"{(durable ? "durable" : "transient")}, node {node}: {Bindings} bindings, {Bindings / time.TotalSeconds:F0} a second, {(await MeasureMemoryAsync(server) - memory) / (double)Bindings:F0} B of the broker's memory each");
        }

        Assert.Equal(2 * Bindings, await CountBindingsAsync(server) - before);
        var unbound = Stopwatch.GetTimestamp();
        foreach (var some in groups.Chunk(BoundAtOnce))
            await topology.BindGroupsAsync(channel, 1, [], some, CancellationToken.None);
        Report($"unbound: {Bindings / Stopwatch.GetElapsedTime(unbound).TotalSeconds:F0} a second");
    }

    private async Task SendAsync(RabbitMqOptions options, int partitions, Func<int, int, OutputHandle> handleOf, int expected, int? framesOfSend = null)
    {
        var server = await fixture.GetAsync();
        var arrived = new CollectingTransport();
        var receivers = await Task.WhenAll(Enumerable.Range(1, Nodes).Select(node => RabbitMqEnds.StartAsync(options, arrived, node)));
        await using var transport = new RabbitMqTransport(options);
        var line = new BatchMessage(Some.RandomBytes(LineBytes));
        // The first send connects.
        await transport.SendAsync(new[] { MessageBatch.Create(OutputHandle.Connection(1, 1), Some.Producer(), 1, line) }, CancellationToken.None);
        await arrived.WaitForMessagesAsync(1);

        var frames = framesOfSend ?? Nodes;
        var busy = await MeasureProcessorAsync(server);
        var began = Stopwatch.GetTimestamp();
        await Task.WhenAll(Enumerable.Range(0, partitions).Select(partition => Task.Run(() => SendAllAsync(partition))));
        await arrived.WaitForMessagesAsync(expected + 1);
        var time = Stopwatch.GetElapsedTime(began);
        busy = await MeasureProcessorAsync(server) - busy;

        Report($"{(options.Durable ? "durable" : "transient")} {options.QueueType}, {Nodes} nodes, {partitions} partitions, {frames} frames of 1 KB a send: {frames * Sends / time.TotalSeconds:F0} published and {expected / time.TotalSeconds:F0} delivered a second, "
            + $"{busy.TotalMicroseconds / expected:F0} µs of the broker's processor time a delivery");
        Assert.Equal(expected + 1, arrived.MessageCount);
        foreach (var receiver in receivers)
            await receiver.DisposeAsync();

        async Task SendAllAsync(int partition)
        {
            var producer = Some.Producer(partition: partition);
            for (var (send, number) = (0, 0L); send < Sends / partitions; send++)
            {
                var batches = Enumerable.Range(1, frames).Select(node => MessageBatch.Create(handleOf(node, partition), producer, ++number, line)).ToArray();
                await transport.SendAsync(batches, CancellationToken.None);
            }
        }
    }

    private static async Task<TimeSpan> MeasureProcessorAsync(RabbitMqServer server) =>
        TimeSpan.FromMilliseconds(await EvaluateAsync(server, "element(1, erlang:statistics(runtime))"));

    // Garbage that was not collected yet is no one's.
    private static Task<long> MeasureMemoryAsync(RabbitMqServer server) => EvaluateAsync(server, "[erlang:garbage_collect(P) || P <- erlang:processes()], erlang:memory(total)");

    private static Task<long> CountBindingsAsync(RabbitMqServer server) => EvaluateAsync(server,
        "length([1 || B <- rabbit_binding:list(<<\"/\">>), element(1, element(4, B)) =:= resource, element(3, element(4, B)) =:= exchange])");

    private static async Task<long> EvaluateAsync(RabbitMqServer server, string expression) =>
        long.Parse(await server.EvaluateAsync(expression), CultureInfo.InvariantCulture);

    private static void Report(string line) => TestContext.Current.TestOutputHelper?.WriteLine(line);
}

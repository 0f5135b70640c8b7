using System.Diagnostics;
using System.Globalization;
using BatchKit.Tests.Buffering;

namespace BatchKit.Tests.Scale;

/// <summary>100 nodes and many handles in one process. What each run measured is in its output; benchmarks/results/scale.md has the figures of 1,000,000 handles.</summary>
[Collection(nameof(MeasuresMemory))]
[Trait("Lane", "faults: a simulated cluster takes all cores")]
public sealed class ScaleTests
{
    // A frame with more groups goes to all nodes (FramePlan).
    private const int MaxSharedGroups = 256;
    private const int Rounds = 2;

    // A line's length, and its share of the numbers in a frame.
    private const int MaxLineOverhead = 16;

    // 10,000 by default; a long run sets BATCHKIT_TEST_SCALE_HANDLES=1000000. A multiple of 2,000, so that each node has as many clients.
    private static readonly int Handles = int.Parse(Environment.GetEnvironmentVariable("BATCHKIT_TEST_SCALE_HANDLES") ?? "10000", CultureInfo.InvariantCulture);

    private static readonly ClusterSettings Defaults = new(Handles);

    // What a game writes in a tick is one send.
    private static readonly ClusterSettings OneSend = Defaults with { MaxSendBatches = 65_536, MaxSendBytes = 64 * 1024 * 1024 };

    [Theory]
    [InlineData(true, RoomLineOrder.BehindAllPlayers)]
    [InlineData(true, RoomLineOrder.BehindItsPlayers)]
    [InlineData(false, RoomLineOrder.BehindAllPlayers)]
    [InlineData(false, RoomLineOrder.BehindItsPlayers)]
    [InlineData(false, RoomLineOrder.ToMembers)]
    public Task Each_line_arrives_once_and_in_order_in_as_many_frames_as_the_model_has(bool byMembers, RoomLineOrder order) => RunAsync(OneSend with { ByMembers = byMembers }, cluster =>
    {
        var model = new FrameModel(cluster, MaxSharedGroups);
        var joins = cluster.JoinRooms();

        for (var line = 1; line <= Rounds; line++)
        {
            var began = Environment.CpuUsage.TotalTime;
            var input = cluster.SendInput(line);
            var sent = Environment.CpuUsage.TotalTime;
            var output = cluster.Tick(line, order);
            var written = Environment.CpuUsage.TotalTime;
            cluster.Clock.Advance(TimeSpan.FromSeconds(1));

            Assert.Equal(model.Input, (input.Published, input.Delivered));
            Assert.Equal(model.OutputOf(order), (output.Published, output.Delivered));
            AssertBytes(model.LinesOfInput, input.Published, input.PublishedBytes);
            AssertBytes(model.LinesOf(order), output.Published, output.PublishedBytes);
            Report($"round {line}, input: {input}, {(sent - began).TotalSeconds:F1} s of processor time; output: {output}, {(written - sent).TotalSeconds:F1} s");
        }

        Assert.Equal(model.Joins, (joins.Published, joins.Delivered));
        Assert.Equal(byMembers ? 2 * cluster.Rooms : 0, cluster.Broker.GroupBindings);
        AssertAllArrived(cluster, Rounds);
    });

    [Theory]
    [InlineData(4096, true)]
    [InlineData(1, true)]
    [InlineData(4096, false)]
    public Task What_a_send_may_have_decides_what_many_rooms_cost(int maxSendBatches, bool byMembers) => RunAsync(Defaults with { MaxSendBatches = maxSendBatches, ByMembers = byMembers }, cluster =>
    {
        cluster.JoinRooms();
        var output = cluster.Tick(line: 1);
        var forNoOne = cluster.AllNodes.Sum(static node => node.LinesForNoOne);

        Report($"{maxSendBatches} batches a send, {(byMembers ? "by members" : "to all nodes")}: {output}; {forNoOne} lines for no one; {cluster.AllGames.Sum(static game => game.Output.GetStatistics().Sends)} sends");
        AssertAllArrived(cluster, lines: 1);
        // A room that has a frame of its own reaches only its members' nodes.
        if (maxSendBatches == 1)
            Assert.Equal(0, forNoOne);
    });

    [Fact]
    public Task A_frame_whose_confirm_is_lost_is_sent_again_and_dropped_as_a_repeat() => RunAsync(OneSend, cluster =>
    {
        cluster.JoinRooms();
        cluster.Broker.LostConfirms = 97;

        for (var line = 1; line <= Rounds; line++)
        {
            cluster.SendInput(line);
            PassRetries(cluster);
            cluster.Tick(line);
            PassRetries(cluster);
        }

        AssertAllArrived(cluster, Rounds);
        var repeated = cluster.AllNodes.Sum(static node => node.Receiver.GetStatistics().DuplicateMessages);
        Assert.InRange(repeated, 1, Rounds * 3L * Handles);
        Report($"{cluster.Buffers.Sum(static buffer => buffer.GetStatistics().FailedSends)} sends failed, {repeated} lines arrived again and were dropped");
    });

    [Fact]
    public Task A_game_that_starts_again_is_a_new_sender_and_the_old_one_is_forgotten() => RunAsync(OneSend with { ProducerExpiry = TimeSpan.FromSeconds(30) }, async cluster =>
    {
        cluster.JoinRooms();
        Round(cluster, line: 1);
        var remembered = cluster.AllNodes.Select(static node => node.Receiver.RememberedProducers).ToArray();

        var restarted = cluster.AllGames[3];
        await restarted.RestartAsync();
        Round(cluster, line: 2);
        var after = cluster.AllNodes.Select(static node => node.Receiver.RememberedProducers).ToArray();
        cluster.Clock.Advance(TimeSpan.FromSeconds(31));
        Round(cluster, line: 3);

        AssertAllArrived(cluster, lines: 3);
        Assert.All(after.Zip(remembered), static pair => Assert.InRange(pair.First - pair.Second, 0, 1));
        Assert.Equal(new FrameModel(cluster, MaxSharedGroups).ReceiversOf(restarted), after.Sum() - remembered.Sum());
        Assert.Equal(remembered, cluster.AllNodes.Select(static node => node.Receiver.RememberedProducers));
        Assert.Equal(0, cluster.AllNodes.Sum(static node => node.Receiver.GetStatistics().DuplicateMessages));
        Report($"senders that a node remembers: {remembered.Min()} to {remembered.Max()}");
    });

    [Fact]
    public Task A_gateway_that_is_killed_costs_its_own_clients_their_lines_and_no_one_elses() => RunAsync(OneSend, cluster =>
    {
        var gateway = cluster.AllNodes[7];
        var lost = gateway.ClientsOfGames.SelectMany(static clients => clients).ToArray();
        cluster.JoinRooms();
        Round(cluster, line: 1);

        gateway.Kill();
        cluster.Tick(line: 2);
        gateway.Restart();
        cluster.Deliver();
        var refused = gateway.Receiver.GetStatistics().RefusedMessages;
        foreach (var client in lost)
            cluster.Reconnect(client, gateway, line: 2);
        foreach (var game in cluster.AllGames)
            game.Join(lost.Where(client => game.Rooms.Contains(SimulatedCluster.RoomOf(client))));
        cluster.Deliver();
        cluster.Tick(line: 3);

        Assert.Equal(lost.Length, refused);
        Assert.Equal((3L * Handles) - lost.Length, cluster.Replies.Taken);
        Assert.Equal((3L * Handles) - lost.Length, cluster.RoomLines.Taken);
        Assert.Equal(2 * cluster.Rooms, cluster.Broker.GroupBindings);
    });

    [Theory]
    [InlineData(4)]
    [InlineData(8)]
    public Task Each_partition_gets_its_share_of_the_handles(int partitions) => RunAsync(OneSend with { Partitions = partitions }, cluster =>
    {
        cluster.JoinRooms();
        cluster.Tick(line: 1);

        var lines = cluster.LinesOfPartitions[1..(partitions + 1)];
        Report($"lines of each of {partitions} partitions: {string.Join(", ", lines)}");
        AssertAllArrived(cluster, lines: 1);
        Assert.All(lines, share => Assert.InRange(share, 0.9 * lines.Average(), 1.1 * lines.Average()));
    });

    [Fact]
    public Task Handles_that_are_not_used_are_given_up_and_later_bursts_take_no_more_memory_than_the_first() => RunAsync(OneSend with { HandleIdleTimeout = TimeSpan.FromSeconds(10) }, cluster =>
    {
        var fresh = GC.GetTotalMemory(forceFullCollection: true);
        cluster.JoinRooms();

        var bursts = Enumerable.Range(1, 4).Select(line => Burst.Run(cluster, line)).ToArray();

        // What earlier tests left in this process goes away during one burst or the other; a leak of ours grows in each, and each frees what its handles took.
        var growth = bursts.Zip(bursts.Skip(1), static (burst, next) => next.Idle - burst.Idle).ToArray();
        var perHandle = bursts.Select(static burst => burst.PerHandle).Order().ToArray();
        Report($"{bursts[0].Live} live handles of 2,020 buffers; heap above the start when idle: {bursts[0].Idle - fresh} B, then more by {string.Join(", ", growth)} B; {string.Join(", ", perHandle)} B a handle");
        Report($"a second of all sweeps: {bursts[0].Swept.TotalMilliseconds:F1} ms of processor time, without handles {bursts[0].SweptWhenIdle.TotalMilliseconds:F1} ms");
        Assert.All(bursts, static burst => Assert.Equal(0, burst.LiveWhenIdle));
        Assert.InRange(perHandle[1], 1, 1024);
        // What went away during the first burst makes its growth negative.
        Assert.InRange(growth.Min(), long.MinValue, 2_000_000 + (Math.Max(0, bursts[0].Idle - fresh) / 10));
    });

    // Off the test's synchronization context, so that a retry runs on the thread that moves the clock.
    private static Task RunAsync(ClusterSettings settings, Action<SimulatedCluster> run) => RunAsync(settings, cluster =>
    {
        run(cluster);
        return Task.CompletedTask;
    });

    private static Task RunAsync(ClusterSettings settings, Func<SimulatedCluster, Task> run) => Task.Run(async () =>
    {
        var (began, processor) = (Stopwatch.GetTimestamp(), Environment.CpuUsage.TotalTime);
        await using var cluster = new SimulatedCluster(settings);
        await run(cluster);
        Report($"{settings.Handles} handles: {Stopwatch.GetElapsedTime(began).TotalSeconds:F1} s, {(Environment.CpuUsage.TotalTime - processor).TotalSeconds:F1} s of processor time");
    });

    private static void Round(SimulatedCluster cluster, int line)
    {
        cluster.SendInput(line);
        cluster.Tick(line);
    }

    // Each retry waits for at most a second, and a frame's repeat may lose its confirm too.
    private static void PassRetries(SimulatedCluster cluster)
    {
        while (cluster.Buffers.Any(static buffer => buffer.GetStatistics().PendingMessages > 0))
        {
            cluster.Clock.Advance(TimeSpan.FromSeconds(1));
            cluster.Deliver();
        }
    }

    private static void AssertAllArrived(SimulatedCluster cluster, int lines)
    {
        Assert.Equal((long)lines * Handles, cluster.Replies.Taken);
        Assert.Equal((long)lines * Handles, cluster.RoomLines.Taken);
        foreach (var statistics in cluster.Buffers.Select(static buffer => buffer.GetStatistics()))
            Assert.Equal((statistics.AcceptedMessages, 0), (statistics.AcknowledgedMessages, statistics.PendingMessages));
    }

    private static void AssertBytes(long lines, long frames, long bytes) =>
        Assert.InRange(bytes, lines * SimulatedCluster.LineBytes, (lines * (SimulatedCluster.LineBytes + MaxLineOverhead)) + (frames * 32));

    private static void Report(string line) => TestContext.Current.TestOutputHelper?.WriteLine(line);

    /// <summary>A round whose handles are given up: live handles and the heap with them and without.</summary>
    private sealed record Burst(long Used, long Idle, long Live, long LiveWhenIdle, TimeSpan Swept, TimeSpan SweptWhenIdle)
    {
        public long PerHandle => (Used - Idle) / Live;

        public static Burst Run(SimulatedCluster cluster, int line)
        {
            Round(cluster, line);
            var (used, live, swept) = (GC.GetTotalMemory(forceFullCollection: true), CountLive(cluster), MeasureSecond(cluster));
            cluster.Clock.Advance(TimeSpan.FromSeconds(12));
            return new Burst(used, GC.GetTotalMemory(forceFullCollection: true), live, CountLive(cluster), swept, MeasureSecond(cluster));
        }

        private static long CountLive(SimulatedCluster cluster) => cluster.Buffers.Sum(static buffer => (long)buffer.GetStatistics().LiveHandles);

        private static TimeSpan MeasureSecond(SimulatedCluster cluster)
        {
            var began = Environment.CpuUsage.TotalTime;
            cluster.Clock.Advance(TimeSpan.FromSeconds(1));
            return Environment.CpuUsage.TotalTime - began;
        }
    }
}

using System.Collections.Immutable;
using BatchKit.Testing;

namespace BatchKit.Tests.Dispatch;

public sealed class RoutingTests
{
    private const int Node = 3;

    private readonly CollectingTransport _local = new();
    private readonly CollectingTransport _remote = new();
    private readonly ScriptedTransport _broker;

    public RoutingTests() => _broker = new ScriptedTransport(_remote);

    [Fact]
    public async Task A_connection_of_this_node_takes_the_local_route_another_nodes_the_remote_and_a_group_both_once()
    {
        await using var buffer = Buffer();
        var (here, there, group) = (Some.Connection(Node), Some.Connection(Node + 1), Some.Group());

        foreach (var handle in new[] { here, there, group })
            buffer.Write(handle, handle.ToString());
        await buffer.FlushAsync().WithinDeadline();

        Assert.Equal([here, group], _local.Batches.Select(batch => batch.Handle));
        Assert.Equal([there, group], _remote.Batches.Select(batch => batch.Handle));
        Assert.Equal((3, 3), (buffer.GetStatistics().AcceptedMessages, buffer.GetStatistics().AcknowledgedMessages));
    }

    [Fact]
    public async Task A_groups_message_is_settled_when_all_its_routes_are()
    {
        var stalled = _broker.Stall();
        await using var buffer = Buffer();
        var group = Some.Group();

        buffer.Write(group, "line 0");
        await stalled.EnteredAsync();
        await _local.WaitForMessagesAsync(1);
        var flush = buffer.FlushAsync(group).AsTask();

        Assert.Equal((0, 1), (buffer.GetStatistics().AcknowledgedMessages, buffer.GetStatistics().PendingMessages));
        Assert.False(flush.IsCompleted);
        stalled.Release();
        await flush.WithinDeadline();
        Assert.Equal((1, 0), (buffer.GetStatistics().AcknowledgedMessages, buffer.GetStatistics().PendingMessages));
    }

    [Fact]
    public async Task A_group_refused_on_one_route_counts_as_failed_once_and_arrives_on_the_other()
    {
        _broker.RefuseWhere(_ => true);
        await using var buffer = Buffer();
        var group = Some.Group();
        // Held, because what has failed before the flush is no longer pending, and no concern of it.
        using var scope = buffer.BeginBufferingScope(group);
        buffer.Write(group, "line 0");

        await Assert.ThrowsAsync<OutputDeliveryException>(() => buffer.FlushAsync(group).WithinDeadline());

        var statistics = buffer.GetStatistics();
        Assert.Equal((1, 0, 1, 0), (statistics.AcceptedMessages, statistics.AcknowledgedMessages, statistics.FailedMessages, statistics.PendingMessages));
        Assert.Single(_local.Messages);
    }

    [Fact]
    public async Task A_broker_that_is_down_holds_up_nobody_whose_connection_is_on_this_node()
    {
        var stalled = _broker.Stall(ignoresCancellation: true);
        await using var buffer = Buffer();
        var (here, there, group) = (Some.Connection(Node), Some.Connection(Node + 1), Some.Group());
        buffer.Write(there, "stuck");
        await stalled.EnteredAsync();
        buffer.Write(group, "to all");

        foreach (var line in Some.Lines(100))
            buffer.Write(here, line);
        await buffer.FlushAsync(here).WithinDeadline();

        Assert.Equal(Some.Lines(100), _local.TextsFor(here));
        Assert.Equal(["to all"], _local.TextsFor(group));
        Assert.Empty(_remote.Messages);
        stalled.Release();
    }

    [Fact]
    public async Task A_handle_keeps_its_partition_and_partitions_send_side_by_side()
    {
        var stalls = Enumerable.Range(0, 4).Select(_ => _broker.Stall()).ToArray();
        await using var buffer = new OutputBuffer([new OutputRoute("only", _broker, partitions: 4)]);
        OutputHandle[] handles = [.. Enumerable.Range(1, 64).Select(sequence => OutputHandle.Connection(Node, sequence))];

        foreach (var handle in handles)
            buffer.Write(handle, "line 0");
        await Task.WhenAll(stalls.Select(stalled => stalled.EnteredAsync()));
        foreach (var handle in handles)
            buffer.Write(handle, "line 1");
        Array.ForEach(stalls, stalled => stalled.Release());
        await buffer.FlushAsync().WithinDeadline();

        Assert.Equal(4, _broker.MostSendsUnderWay);
        Assert.Equal(4, _remote.Batches.Select(batch => batch.Producer.Partition).Distinct().Count());
        Assert.All(handles, handle => Assert.Equal(Some.Lines(2), _remote.TextsFor(handle)));
        Assert.All(handles, handle => Assert.Single(_remote.Batches.Where(batch => batch.Handle == handle).Select(batch => batch.Producer).Distinct()));
    }

    [Theory]
    [InlineData(1, 2)]
    [InlineData(1, 8)]
    [InlineData(8, 8)]
    [InlineData(20, 4)]
    [InlineData(64, 64)]
    public async Task Connections_spread_over_the_partitions_whatever_lies_between_their_numbers(int stride, int partitions)
    {
        const int perPartition = 250;
        await using var buffer = new OutputBuffer([new OutputRoute("only", _remote, partitions)]);

        for (var connection = 1; connection <= partitions * perPartition; connection++)
            buffer.Write(OutputHandle.Connection(Node, connection * stride), "line 0");
        await buffer.FlushAsync().WithinDeadline();

        var counts = _remote.Batches.GroupBy(static batch => batch.Producer.Partition).Select(static batches => batches.Count()).ToArray();
        Assert.Equal(partitions, counts.Length);
        Assert.All(counts, count => Assert.InRange(count, perPartition * 9 / 10, perPartition * 11 / 10));
    }

    [Fact]
    public async Task While_a_send_is_under_way_whatever_is_written_goes_out_together_in_the_next()
    {
        var stalled = _broker.Stall();
        await using var buffer = new OutputBuffer(_broker);
        var (first, other) = (Some.Connection(), Some.Connection());
        buffer.Write(first, "line 0");
        await stalled.EnteredAsync();

        for (var line = 1; line < 1000; line++)
            buffer.Write(line % 2 == 0 ? first : other, $"line {line}");
        stalled.Release();
        await buffer.FlushAsync().WithinDeadline();

        Assert.Equal([1, 2], _remote.BatchesOfSends);
        Assert.Equal([1, 500, 499], _remote.Batches.Select(batch => batch.Messages.Count));
        Assert.Equal((2, 3), (buffer.GetStatistics().Sends, buffer.GetStatistics().Batches));
    }

    [Fact]
    public async Task A_router_that_names_no_route_or_an_unknown_one_is_told_so_at_the_write()
    {
        await using var buffer = new OutputBuffer([new OutputRoute("only", _local)], new BadRouter());

        var unknown = Assert.Throws<InvalidOperationException>(() => buffer.Write(Some.Connection(), "line"u8));
        Assert.Throws<InvalidOperationException>(() => buffer.Write(Some.Group(), "line"u8));

        Assert.Contains("nowhere", unknown.Message, StringComparison.Ordinal);
        Assert.Contains("only", unknown.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Routes_that_are_missing_null_or_unknown_are_called_what_the_caller_gave()
    {
        await using var buffer = new OutputBuffer(_local);

        var missing = Assert.ThrowsAny<ArgumentException>(() => new OutputBuffer(Array.Empty<OutputRoute>()));
        var nothing = Assert.Throws<ArgumentException>(() => new OutputBuffer([new OutputRoute("only", _local), null!]));
        var twice = Assert.Throws<ArgumentException>(() => new OutputBuffer([new OutputRoute("only", _local), new OutputRoute("only", _local)]));
        var unknown = Assert.Throws<ArgumentException>(() => buffer.GetPendingBytes("nowhere"));

        Assert.Equal(("routes", "routes", "routes", "routeName"), (missing.ParamName, nothing.ParamName, twice.ParamName, unknown.ParamName));
        Assert.StartsWith("A route is null.", nothing.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_batch_counts_as_delivered_locally_when_this_buffer_numbered_it_and_its_router_chose_the_local_route()
    {
        await using var buffer = Buffer();
        await using var restarted = Buffer();
        var group = Some.Group();

        buffer.Write(group, "line");
        await buffer.FlushAsync().WithinDeadline();

        var producer = Assert.Single(_remote.Batches).Producer;
        Assert.True(buffer.IsDeliveredLocally(producer, group));
        Assert.False(restarted.IsDeliveredLocally(producer, group));
        Assert.False(buffer.IsDeliveredLocally(Some.Producer(Node), group));
        Assert.False(buffer.IsDeliveredLocally(producer, Some.Connection(Node + 1)));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_group_that_the_router_keeps_from_the_local_route_is_not_delivered_locally(bool routerFails)
    {
        var router = new RemoteOnlyRouter();
        await using var buffer = new OutputBuffer(
            [new OutputRoute(LocalFirstRouter.LocalRoute, _local), new OutputRoute(LocalFirstRouter.RemoteRoute, _remote)], router);
        var group = Some.Group();
        buffer.Write(group, "line"u8);
        await buffer.FlushAsync().WithinDeadline();

        router.Fails = routerFails;

        Assert.False(buffer.IsDeliveredLocally(Assert.Single(_remote.Batches).Producer, group));
        Assert.Equal(routerFails, !buffer.GetHealth().Reasons.IsEmpty);
    }

    private OutputBuffer Buffer() => new(
        [new OutputRoute(LocalFirstRouter.LocalRoute, _local), new OutputRoute(LocalFirstRouter.RemoteRoute, _broker)],
        new LocalFirstRouter(Node), new OutputBufferOptions { Node = Node });

    private sealed class RemoteOnlyRouter : IOutputRouter
    {
        public bool Fails { get; set; }

        public ImmutableArray<string> GetRoutes(OutputHandle handle) =>
            Fails ? throw new InvalidOperationException("The router fails.") : [LocalFirstRouter.RemoteRoute];
    }

    private sealed class BadRouter : IOutputRouter
    {
        public ImmutableArray<string> GetRoutes(OutputHandle handle) => handle.IsConnection ? ["nowhere"] : [];
    }
}

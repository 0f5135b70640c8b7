using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.RabbitMQ;

public sealed class RabbitMqTransportTests(RabbitMqFixture fixture)
{
    [Fact]
    public async Task A_send_for_one_node_is_one_frame()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync());
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        var wire = await probe.ListenAsync(options, "1", "2", "all");
        await using var transport = new RabbitMqTransport(options);
        var producer = Some.Producer();

        await transport.SendAsync(
            new[] { Some.Batch(Some.Connection(1), producer, 1, "a", "b"), Some.Batch(Some.Connection(1), producer, 2, "c") }, CancellationToken.None);

        var frame = Assert.Single(await probe.TakeFramesAsync(wire));
        Assert.Equal("1", frame.RoutingKey);
        Assert.Equal(["a", "b", "c"], frame.Texts);
    }

    [Fact]
    public async Task A_send_for_several_destinations_is_a_frame_each_and_a_frame_to_all_nodes_parts_them()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync());
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        var wire = await probe.ListenAsync(options, "1", "2", "all");
        await using var transport = new RabbitMqTransport(options);
        var producer = Some.Producer();

        await transport.SendAsync(
            new[]
            {
                Some.Batch(Some.Connection(1), producer, 1, "to 1"),
                Some.Batch(Some.Connection(2), producer, 2, "to 2"),
                Some.Batch(Some.Connection(1), producer, 3, "to 1 too"),
                Some.Batch(Some.Group(), producer, 4, "to all"),
                Some.Batch(Some.Connection(1), producer, 5, "to 1 after all"),
            },
            CancellationToken.None);

        var frames = await probe.TakeFramesAsync(wire);
        Assert.Equal(new[] { "1: to 1, to 1 too", "2: to 2", "all: to all", "1: to 1 after all" }, frames.Select(frame => $"{frame.RoutingKey}: {string.Join(", ", frame.Texts)}").ToArray());
    }

    [Fact]
    public async Task With_a_destination_node_everything_goes_there()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => options.DestinationNode = 7);
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        var wire = await probe.ListenAsync(options, "7");
        await using var transport = new RabbitMqTransport(options);
        var producer = Some.Producer();

        await transport.SendAsync(
            new[] { Some.Batch(Some.Connection(1), producer, 1, "a"), Some.Batch(Some.Group(), producer, 2, "b") }, CancellationToken.None);

        Assert.Equal(["a", "b"], Assert.Single(await probe.TakeFramesAsync(wire)).Texts);
    }

    [Fact]
    public async Task A_send_that_passes_the_frame_limit_is_several_frames()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => options.MaxFrameBytes = 4096);
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        var wire = await probe.ListenAsync(options, "1");
        await using var transport = new RabbitMqTransport(options);
        var producer = Some.Producer();
        var texts = Some.Lines(3).Select(line => line.PadRight(1500)).ToArray();

        await transport.SendAsync(
            texts.Select((text, index) => Some.Batch(Some.Connection(1), producer, index + 1, text)).ToArray(), CancellationToken.None);

        var frames = await probe.TakeFramesAsync(wire);
        Assert.Equal(2, frames.Count);
        Assert.Equal(texts, frames.SelectMany(frame => frame.Texts).ToArray());
    }

    [Theory]
    [InlineData(136, 1)]
    [InlineData(150, 2)]
    public async Task A_send_is_one_frame_up_to_8_mebibytes_by_default(int batches, int expected)
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync());
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        var wire = await probe.ListenAsync(options, "1");
        await using var transport = new RabbitMqTransport(options);
        var producer = Some.Producer();
        var text = new string('x', 60_000);

        await transport.SendAsync(
            Enumerable.Range(1, batches).Select(number => Some.Batch(Some.Connection(1), producer, number, text)).ToArray(), CancellationToken.None);

        Assert.Equal(expected, (await probe.TakeFramesAsync(wire)).Count);
    }

    [Fact]
    public async Task A_batch_that_no_frame_can_hold_is_refused_and_its_neighbour_is_not()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => options.MaxFrameBytes = 4096);
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        await probe.ListenAsync(options, "1");
        await using var transport = new RabbitMqTransport(options);
        var producer = Some.Producer();

        var failure = await Assert.ThrowsAsync<BatchSendException>(async () => await transport.SendAsync(
            new[] { Some.Batch(Some.Connection(1), producer, 1, new string('x', 5000)), Some.Batch(Some.Connection(1), producer, 2, "b") }, CancellationToken.None));

        Assert.Equal([BatchOutcome.Refused, BatchOutcome.Acknowledged], failure.Outcomes);
        Assert.Contains(nameof(RabbitMqOptions.MaxFrameBytes), failure.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Messages_are_persistent_when_durable(bool durable)
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => options.Durable = durable);
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        var wire = await probe.ListenAsync(options, "1");
        await using var transport = new RabbitMqTransport(options);

        await transport.SendAsync(new[] { Some.Batch(Some.Connection(1), Some.Producer(), 1, "a") }, CancellationToken.None);

        Assert.Equal(durable, Assert.Single(await probe.TakeFramesAsync(wire)).Properties.Persistent);
    }

    [Fact]
    public async Task A_plain_consumer_sees_what_each_frame_is_and_whose()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync());
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        var wire = await probe.ListenAsync(options, "1", "all");
        await using var transport = new RabbitMqTransport(options);
        var (producer, member) = (Some.Producer(), Some.Connection(1));

        await transport.SendAsync(
            new[]
            {
                Some.Batch(member, producer, 1, "to a connection"),
                MessageBatch.Create(member, producer, 2, new BatchMessage(ControlMessage.JoinGroup("room").ToPayload(), MessageHeader.Control)),
                Some.Batch(OutputHandle.Named("room"), producer, 3, "to a group"),
            },
            CancellationToken.None);

        var frames = await probe.TakeFramesAsync(wire);
        Assert.Equal(["1", "all"], frames.Select(frame => frame.RoutingKey));
        Assert.All(frames, frame => Assert.Equal(
            ("application/vnd.batchkit.frame", "batchkit.frame", "batchkit"), (frame.Properties.ContentType, frame.Properties.Type, frame.Properties.AppId)));
    }

    [Fact]
    public async Task Output_for_a_node_that_is_gone_is_refused_and_its_neighbours_arrive()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => options.UnroutableGrace = TimeSpan.Zero);
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        var wire = await probe.ListenAsync(options, "1");
        await using var transport = new RabbitMqTransport(options);
        var producer = Some.Producer();

        var failure = await Assert.ThrowsAsync<BatchSendException>(async () => await transport.SendAsync(
            new[] { Some.Batch(Some.Connection(1), producer, 1, "a"), Some.Batch(Some.Connection(5), producer, 2, "b"), Some.Batch(Some.Connection(1), producer, 3, "c") },
            CancellationToken.None));

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged], failure.Outcomes);
        Assert.Contains("node 5", failure.Message, StringComparison.Ordinal);
        Assert.Equal(["a", "c"], Assert.Single(await probe.TakeFramesAsync(wire)).Texts);
    }

    [Fact]
    public async Task Shortly_after_connecting_output_for_a_node_without_a_queue_is_kept()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => options.UnroutableGrace = TimeSpan.FromMinutes(10));
        await using var transport = new RabbitMqTransport(options);

        var failure = await Assert.ThrowsAsync<BatchSendException>(async () =>
            await transport.SendAsync(new[] { Some.Batch(Some.Connection(5), Some.Producer(), 1, "a") }, CancellationToken.None));

        Assert.Equal([BatchOutcome.Busy], failure.Outcomes);
    }

    [Fact]
    public async Task A_kept_batch_that_a_later_frame_to_its_queue_overtook_is_refused_because_it_would_look_like_a_repeat()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => options.UnroutableGrace = TimeSpan.FromMinutes(10));
        await using var transport = new RabbitMqTransport(options);
        var producer = Some.Producer();

        var failure = await Assert.ThrowsAsync<BatchSendException>(async () => await transport.SendAsync(
            new[] { Some.Batch(Some.Connection(5), producer, 1, "a"), Some.Batch(Some.Group(), producer, 2, "b") }, CancellationToken.None));

        Assert.Equal([BatchOutcome.Refused, BatchOutcome.Acknowledged], failure.Outcomes);
    }

    [Fact]
    public async Task A_frame_that_the_broker_rejects_holds_up_those_behind_it_so_that_it_can_be_sent_again()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync());
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        var full = Some.Name("full");
        await probe.DeclareQueueAsync(options, full, "5", new(StringComparer.Ordinal) { ["x-max-length"] = 1, ["x-overflow"] = "reject-publish" });
        await probe.UnbindAsync(options, full, "all");
        var group = await probe.ListenAsync(options, "all");
        await probe.PublishAsync(options, "5", Some.Frame(Some.Batch(Some.Connection(5), Some.Producer(), 1, "fills the queue")));
        await using var transport = new RabbitMqTransport(options);
        var producer = Some.Producer();
        var batches = new[] { Some.Batch(Some.Connection(5), producer, 1, "a"), Some.Batch(Some.Group(), producer, 2, "b") };

        var failure = await Assert.ThrowsAsync<BatchSendException>(async () => await transport.SendAsync(batches, CancellationToken.None));
        var meanwhile = await probe.CountAsync(group);
        await probe.TakeFramesAsync(full);
        await transport.SendAsync(batches, CancellationToken.None);

        Assert.Equal([BatchOutcome.Busy, BatchOutcome.Busy], failure.Outcomes);
        Assert.Equal(0u, meanwhile);
        Assert.Equal(["a"], Assert.Single(await probe.TakeFramesAsync(full)).Texts);
        Assert.Equal(["b"], Assert.Single(await probe.TakeFramesAsync(group)).Texts);
    }

    [Fact]
    public async Task A_group_that_no_one_listens_for_is_success()
    {
        await using var transport = new RabbitMqTransport(RabbitMqSome.Options(await fixture.GetAsync()));

        await transport.SendAsync(new[] { Some.Batch(Some.Group(), Some.Producer(), 1, "a") }, CancellationToken.None);
    }

    [Fact]
    public async Task A_broker_that_is_down_is_named_with_its_port()
    {
        var port = FreePort.Take(1)[0];
        await using var transport = new RabbitMqTransport(new RabbitMqOptions { Hosts = [$"127.0.0.1:{port}"] });

        var failure = await Assert.ThrowsAsync<IOException>(async () =>
            await transport.SendAsync(new[] { Some.Batch(Some.Connection(), Some.Producer(), 1, "a") }, CancellationToken.None));

        Assert.Contains($"127.0.0.1:{port}", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Of_several_hosts_one_that_is_up_is_enough()
    {
        var down = FreePort.Take(1)[0];
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => options.Hosts.Insert(0, $"127.0.0.1:{down}"));
        await using var transport = new RabbitMqTransport(options);

        await transport.SendAsync(new[] { Some.Batch(Some.Group(), Some.Producer(), 1, "a") }, CancellationToken.None);
    }

    [Fact]
    public async Task Partitions_that_share_the_channel_take_turns()
    {
        const int partitions = 16;
        const int enough = 20;
        var options = RabbitMqSome.Options(await fixture.GetAsync());
        await using var transport = new RabbitMqTransport(options);
        var sent = new int[partitions];

        await Task.WhenAll(Enumerable.Range(0, partitions).Select(partition => Task.Run(async () =>
        {
            var (group, producer) = (Some.Group(), Some.Producer(partition: partition));
            // Each goes on until the last has enough, so that a partition that is starved shows.
            while (Array.Exists(sent, static count => count < enough))
                await transport.SendAsync(new[] { Some.Batch(group, producer, ++sent[partition], "a") }, CancellationToken.None);
        }))).WithinDeadline();

        Assert.All(sent, count => Assert.InRange(count, enough, 5 * enough));
    }

    [Fact]
    public async Task A_topology_that_is_taken_as_given_and_missing_fails_the_send_and_names_what_is_missing()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => options.DeclareTopology = false);
        await using var transport = new RabbitMqTransport(options);

        var failure = await Assert.ThrowsAsync<IOException>(async () =>
            await transport.SendAsync(new[] { Some.Batch(Some.Connection(), Some.Producer(), 1, "a") }, CancellationToken.None));

        Assert.Contains($"{options.Prefix}.direct", failure.Message, StringComparison.Ordinal);
    }
}

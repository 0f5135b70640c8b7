using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Options;
using NATS.Client.Core;
using NATS.Client.JetStream;

namespace BatchKit.Nats.Tests;

/// <summary>What a node over NATS does that the transport's specification does not say.</summary>
public sealed class NatsTransportTests(NatsFixture nats)
{
    public static TheoryData<NatsDelivery> Deliveries => [NatsDelivery.AtLeastOnce, NatsDelivery.AtMostOnce];

    [Theory]
    [MemberData(nameof(Deliveries))]
    public async Task A_scope_is_one_message_and_reaches_every_node(NatsDelivery delivery)
    {
        var options = await nats.NewOptionsAsync();
        options.Delivery = delivery;
        await using var watch = new NatsConnection(new NatsOpts { Url = options.Url! });
        var published = await watch.SubscribeCoreAsync<byte[]>($"{options.Prefix}.>");
        await watch.PingAsync();
        await using var first = await NatsNode.StartAsync(options, 1);
        await using var second = await NatsNode.StartAsync(options, 2);

        await using (first.Output.BeginBufferingScope(NatsNode.Room))
        {
            for (var number = 0; number < 1000; number++)
                first.Output.Write(NatsNode.Room, $"{number}");
        }

        await second.Arrived.WaitForMessagesAsync(NatsNode.Room, 1000).WithinDeadline();
        Assert.Equal(Enumerable.Range(0, 1000).Select(static number => $"{number}"), second.Arrived.TextsFor(NatsNode.Room));
        await watch.PingAsync();
        var messages = new List<NatsMsg<byte[]>>();
        while (published.Msgs.TryRead(out var message))
            messages.Add(message);
        Assert.Equal([$"{options.Prefix}.all"], messages.Where(static message => message.Headers?.ContainsKey("BatchKit-First") != true).Select(static message => message.Subject));
    }

    [Fact]
    public async Task With_core_NATS_only_so_many_bytes_wait_while_the_next_hop_has_a_frame()
    {
        var options = await nats.NewOptionsAsync();
        options.Delivery = NatsDelivery.AtMostOnce;
        var stuck = new StuckHop();
        await using var receiver = new NatsReceiver(options, new NodeNumber(2), new BatchReceiver(stuck));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await using var transport = new NatsTransport(options);
        var (producer, text) = (Some.Producer(), new string('x', options.MaxFrameBytes - 1000));

        for (var number = 1; number <= 200; number++)
        {
            await transport.SendAsync(new[] { Some.Batch(OutputHandle.Connection(2, 1), producer, number, text) }, CancellationToken.None).AsTask().WithinDeadline();
            await stuck.Entered.WithinDeadline();
        }

        await Until.TrueAsync(() => receiver.DroppedFrames == 200 - 1 - 64);
        stuck.Release();
        await Until.TrueAsync(() => receiver.GetStatistics().DeliveredMessages == 65);
    }

    [Theory]
    [MemberData(nameof(Deliveries))]
    public async Task Output_for_a_node_and_for_all_nodes_arrives_in_one_order_and_at_no_other_node(NatsDelivery delivery)
    {
        var options = await nats.NewOptionsAsync();
        options.Delivery = delivery;
        await using var sender = await NatsNode.StartAsync(options, 1);
        await using var receiver = await NatsNode.StartAsync(options, 20);
        await using var other = await NatsNode.StartAsync(options, 30);

        for (var number = 0; number < 500; number++)
            await sender.Output.WriteAsync(number % 2 == 0 ? NatsNode.Room : receiver.Connection, $"{number}");

        await receiver.Arrived.WaitForMessagesAsync(500).WithinDeadline();
        Assert.Equal(Enumerable.Range(0, 500).Select(static number => $"{number}"), receiver.Arrived.Texts);
        await other.Arrived.WaitForMessagesAsync(250).WithinDeadline();
        Assert.Equal(Enumerable.Range(0, 250).Select(static number => $"{2 * number}"), other.Arrived.Texts);
    }

    [Fact]
    public async Task A_receiver_may_be_started_stopped_and_disposed_twice_but_not_started_after_that()
    {
        var options = await nats.NewOptionsAsync();
        var receiver = new NatsReceiver(options, new NodeNumber(1), new BatchReceiver(new CollectingTransport()));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();

        await receiver.StopAsync(CancellationToken.None).WithinDeadline();
        await receiver.StopAsync(CancellationToken.None).WithinDeadline();
        await receiver.DisposeAsync().AsTask().WithinDeadline();
        await receiver.DisposeAsync().AsTask().WithinDeadline();
        await receiver.StopAsync(CancellationToken.None).WithinDeadline();

        await Assert.ThrowsAsync<ObjectDisposedException>(() => receiver.StartAsync(CancellationToken.None));
    }

    [Fact]
    public async Task The_applications_connection_is_used_and_stays_open()
    {
        var options = await nats.NewOptionsAsync();
        await using var connection = new NatsConnection(new NatsOpts { Url = options.Url! });
        options.Url = null;
        await using (var node = await NatsNode.StartAsync(options, 1, connection))
        {
            await node.WriteAsync(NatsNode.Room, "hello");
            await node.Arrived.WaitForMessagesAsync(1).WithinDeadline();
            var health = await node.GetHealthAsync();
            Assert.Equal((HealthStatus.Healthy, null), (health.Status, health.Description));
        }

        await connection.PingAsync();
        Assert.Equal(NatsConnectionState.Open, connection.ConnectionState);
    }

    [Theory]
    [MemberData(nameof(Deliveries))]
    public async Task A_frame_that_is_signed_for_another_node_is_rejected(NatsDelivery delivery)
    {
        var options = await nats.NewOptionsAsync();
        options.Delivery = delivery;
        var arrived = new CollectingTransport();
        var batches = new BatchReceiver(arrived, new BatchReceiverOptions { Signer = new FrameSigner(SignedFrames.Key) });
        await using var receiver = new NatsReceiver(options, new NodeNumber(1), batches);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await using var thief = new NatsConnection(new NatsOpts { Url = options.Url! });

        foreach (var frame in new[] { SignedFrames.For(2, "other"), SignedFrames.For(1, "own"), SignedFrames.ForAll("all") })
            await thief.PublishAsync($"{options.Prefix}.node.1", frame);

        await arrived.WaitForMessagesAsync(2).WithinDeadline();
        Assert.Equal(["own", "all"], arrived.Texts);
        Assert.Equal(1, batches.GetStatistics().RejectedFrames);
    }

    [Theory]
    [MemberData(nameof(Deliveries))]
    public async Task A_host_starts_while_the_server_is_away_and_says_so_without_the_password(NatsDelivery delivery)
    {
        await nats.GetAsync();
        var options = await nats.NewOptionsAsync();
        options.Delivery = delivery;
        options.Url = $"nats://player:secret@127.0.0.1:{FreePort.Take(1)[0]}";

        await using var node = await NatsNode.StartAsync(options, 1);

        var health = await node.GetHealthAsync();
        Assert.Equal(HealthStatus.Unhealthy, health.Status);
        Assert.Contains("NATS at 127.0.0.1", health.Description, StringComparison.Ordinal);
        Assert.DoesNotContain("secret", health.Description, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_stream_that_is_deleted_is_created_again_and_nothing_is_lost_that_was_acknowledged()
    {
        var options = await nats.NewOptionsAsync();
        await using var node = await NatsNode.StartAsync(options, 1);
        await node.WriteAsync(NatsNode.Room, "before");
        await node.Arrived.WaitForMessagesAsync(1).WithinDeadline();
        await using var connection = new NatsConnection(new NatsOpts { Url = options.Url! });

        await new NatsJSContext(connection).DeleteStreamAsync(options.Prefix);
        await Until.TrueAsync(async () =>
        {
            // The receiver finds out later than the sender: what nobody receives, the stream does not keep.
            await node.WriteAsync(NatsNode.Room, "after");
            return node.Arrived.Texts.Contains("after");
        });

        Assert.Equal("before", node.Arrived.Texts[0]);
    }

    [Fact]
    public async Task A_full_stream_is_the_fault_until_it_takes_frames_again()
    {
        var options = await nats.NewOptionsAsync();
        options.MaxStreamBytes = 1024 * 1024;
        await using var sender = await NatsNode.StartAsync(options, 1);
        var away = await NatsNode.StartAsync(options, 2);
        var connection = away.Connection;
        await away.DisposeAsync();
        for (var frame = 0; frame < 8; frame++)
            sender.Output.Write(connection, new string('x', 200_000));

        await Until.TrueAsync(async () => (await sender.GetHealthAsync()).Description?.Contains("maximum bytes exceeded", StringComparison.Ordinal) == true);
        var health = await sender.GetHealthAsync();
        await using var back = await NatsNode.StartAsync(options, 2);

        await back.Arrived.WaitForMessagesAsync(8).WithinDeadline();
        await sender.WaitUntilHealthyAsync();
        Assert.Equal(HealthStatus.Unhealthy, health.Status);
    }

    [Fact]
    public async Task A_full_stream_whose_frames_were_given_up_is_no_fault_any_more_when_it_has_capacity()
    {
        var options = await nats.NewOptionsAsync();
        options.MaxStreamBytes = 1024 * 1024;
        await using var sender = await NatsNode.StartAsync(options, 1, configure: static services => services.Configure<OutputBufferOptions>(static buffer => buffer.DeliveryTimeout = TimeSpan.FromSeconds(1)));
        var away = await NatsNode.StartAsync(options, 2);
        var connection = away.Connection;
        await away.DisposeAsync();
        for (var frame = 0; frame < 8; frame++)
            sender.Output.Write(connection, new string('x', 200_000));

        await Until.TrueAsync(() => sender.Output.GetStatistics().PendingMessages == 0);
        var (failed, health) = (sender.Output.GetStatistics().FailedMessages, await sender.GetHealthAsync());
        await using var back = await NatsNode.StartAsync(options, 2);

        await sender.WaitUntilHealthyAsync();
        Assert.True(failed > 0);
        Assert.Contains("maximum bytes exceeded", health.Description, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Where_the_server_takes_less_than_a_frame_the_host_does_not_start_and_says_which_setting()
    {
        var options = await nats.NewOptionsAsync();
        options.MaxFrameBytes = 8 * 1024 * 1024;

        var error = await Assert.ThrowsAsync<InvalidOperationException>(() => NatsNode.StartAsync(options, 1));

        Assert.Contains("NatsOptions.MaxFrameBytes is 8388608", error.Message, StringComparison.Ordinal);
        Assert.Contains("1048576", error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task What_the_stream_acknowledged_waits_for_nobody_else_and_takes_no_space()
    {
        var options = await nats.NewOptionsAsync();
        await using var node = await NatsNode.StartAsync(options, 1);
        for (var line = 0; line < 20; line++)
            await node.WriteAsync(NatsNode.Room, $"{line}");
        await node.Arrived.WaitForMessagesAsync(20).WithinDeadline();

        await using var connection = new NatsConnection(new NatsOpts { Url = options.Url! });
        await Until.TrueAsync(async () => (await new NatsJSContext(connection).GetStreamAsync(options.Prefix)).Info.State.Messages == 0);
    }

    [Fact]
    public void Settings_outside_their_range_are_refused_by_name()
    {
        AssertRefused("Prefix", new NatsOptions { Prefix = "a.b" });
        AssertRefused("MaxFrameBytes", new NatsOptions { MaxFrameBytes = 1 });
        AssertRefused("Url", new NatsOptions { Url = "http://nats" });
        AssertRefused("MaxAge", new NatsOptions { MaxAge = TimeSpan.FromSeconds(1) });
        AssertRefused("Replicas", new NatsOptions { Replicas = 6 });
        AssertRefused("StopTimeout", new NatsOptions { StopTimeout = TimeSpan.Zero });
        AssertRefused("Delivery", new NatsOptions { Delivery = (NatsDelivery)7 });
    }

    private static void AssertRefused(string setting, NatsOptions options) =>
        Assert.Contains(setting, Assert.Throws<OptionsValidationException>(() => new NatsTransport(options)).Message, StringComparison.Ordinal);
}

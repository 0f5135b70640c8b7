using System.Globalization;
using BatchKit.Testing;
using BatchKit.TestSupport;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Redis;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using StackExchange.Redis;
using static BatchKit.Redis.Tests.RedisHosts;

namespace BatchKit.Redis.Tests;

/// <summary>What Redis pub/sub does that other transports do not.</summary>
public sealed class RedisTransportTests(RedisFixture redis)
{
    private static readonly OutputHandle Room = OutputHandle.Named("room");

    [Fact]
    public async Task A_scope_is_one_publish_and_reaches_every_node()
    {
        var options = await redis.NewOptionsAsync();
        using var first = await StartAsync(options, 1);
        using var second = await StartAsync(options, 2);
        await using var watch = await ConnectionMultiplexer.ConnectAsync(options.Configuration!);
        var published = await watch.GetSubscriber().SubscribeAsync(RedisChannel.Pattern($"{options.Prefix}:*"));
        var output = first.Services.GetRequiredService<IOutputBuffer>();

        await using (output.BeginBufferingScope(Room))
        {
            for (var number = 0; number < 1000; number++)
                output.Write(Room, $"{number}");
        }

        await CollectedBy(second).WaitForMessagesAsync(Room, 1000).WithinDeadline();
        Assert.Equal(Enumerable.Range(0, 1000).Select(static number => $"{number}"), CollectedBy(second).TextsFor(Room));
        await published.ReadAsync().AsTask().WithinDeadline();
        Assert.True(published.TryGetCount(out var more));
        Assert.Equal(0, more);
    }

    [Fact]
    public async Task Output_for_a_node_and_for_all_nodes_arrives_in_one_order()
    {
        var options = await redis.NewOptionsAsync();
        using var sender = await StartAsync(options, 1);
        using var receiver = await StartAsync(options, 20);
        using var other = await StartAsync(options, 30);
        var output = sender.Services.GetRequiredService<IOutputBuffer>();
        var connection = OutputHandle.Connection(20, 1);

        for (var number = 0; number < 500; number++)
            await output.WriteAsync(number % 2 == 0 ? Room : connection, $"{number}");

        await CollectedBy(receiver).WaitForMessagesAsync(500).WithinDeadline();
        Assert.Equal(Enumerable.Range(0, 500).Select(static number => $"{number}"), CollectedBy(receiver).Texts);
        await CollectedBy(other).WaitForMessagesAsync(250).WithinDeadline();
        Assert.DoesNotContain("1", CollectedBy(other).Texts);
    }

    [Fact]
    public async Task While_Redis_is_down_output_is_lost_and_counted_and_later_output_arrives()
    {
        var server = (await redis.GetAsync()).Address;
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var options = await redis.NewOptionsAsync(proxy.Port);
        var unused = FreePort.Take(1)[0];
        using var sender = await StartAsync(options, 1);
        using var receiver = await StartAsync(options, 2);
        var output = sender.Services.GetRequiredService<OutputBuffer>();

        proxy.ForwardTo(unused);
        proxy.ResetAll();
        await Until.TrueAsync(async () => await HealthOf(sender) == HealthStatus.Unhealthy && await HealthOf(receiver) == HealthStatus.Unhealthy);
        output.Write(Room, "lost");
        await Assert.ThrowsAsync<OutputDeliveryException>(() => output.FlushAsync(Room).WithinDeadline());
        Assert.Equal(1, output.GetStatistics().FailedMessages);

        proxy.ForwardTo(server.Port);
        await Until.TrueAsync(async () => await HealthOf(sender) == HealthStatus.Healthy && await HealthOf(receiver) == HealthStatus.Healthy);
        await Until.TrueAsync(async () =>
        {
            // The client has its connection back shortly before its subscription.
            await output.WriteAsync(Room, "later");
            return CollectedBy(receiver).Texts.Contains("later");
        });
        Assert.DoesNotContain("lost", CollectedBy(receiver).Texts);
    }

    [Fact]
    public async Task A_server_that_holds_back_what_is_published_is_the_senders_fault_until_it_goes_on()
    {
        var options = await redis.NewOptionsAsync();
        await using var own = await RedisServer.StartOwnAsync();
        options.Configuration = $"{own.Address.Host}:{own.Address.Port}";
        await using var administrator = await ConnectionMultiplexer.ConnectAsync($"{options.Configuration},allowAdmin=true");
        using var host = await StartAsync(options, 1);
        await Until.TrueAsync(async () => await HealthOf(host) == HealthStatus.Healthy);

        await administrator.GetDatabase().ExecuteAsync("CLIENT", "PAUSE", 600_000, "WRITE");
        await Until.TrueAsync(async () => await HealthOf(host) == HealthStatus.Unhealthy);
        await administrator.GetDatabase().ExecuteAsync("CLIENT", "UNPAUSE");

        await Until.TrueAsync(async () => await HealthOf(host) == HealthStatus.Healthy);
    }

    [Fact]
    public async Task A_server_that_does_not_answer_is_the_receivers_fault_until_it_does()
    {
        var server = (await redis.GetAsync()).Address;
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var options = await redis.NewOptionsAsync(proxy.Port);
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        builder.Services.AddBatchKit(static buffer => buffer.Node = 1)
            .ReceiveFromRedis(static _ => new CollectingTransport(), receiving => (receiving.Configuration, receiving.Prefix) = (options.Configuration, options.Prefix));
        using var host = builder.Build();
        await host.StartAsync().WithinDeadline();
        await Until.TrueAsync(async () => await HealthOf(host) == HealthStatus.Healthy);

        proxy.Stall();
        await Until.TrueAsync(async () => await HealthOf(host) == HealthStatus.Unhealthy);
        proxy.Resume();

        await Until.TrueAsync(async () => await HealthOf(host) == HealthStatus.Healthy);
    }

    [Fact]
    public async Task A_host_starts_while_Redis_is_down()
    {
        await redis.GetAsync();
        var options = await redis.NewOptionsAsync(FreePort.Take(1)[0]);

        using var host = await StartAsync(options, 1);

        Assert.Equal(HealthStatus.Unhealthy, await HealthOf(host));
    }

    [Fact]
    public async Task A_receiver_may_be_started_stopped_and_disposed_twice_but_not_started_after_that()
    {
        var options = await redis.NewOptionsAsync();
        var receiver = new RedisReceiver(options, new NodeNumber(1), new BatchReceiver(new CollectingTransport()));
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
    public async Task A_frame_that_no_one_can_read_is_logged_and_the_next_one_arrives()
    {
        var options = await redis.NewOptionsAsync();
        using var log = new LogCollector();
        using var sender = await StartAsync(options, 1);
        var arrived = new CollectingTransport();
        await using var receiver = new RedisReceiver(options, new NodeNumber(2), new BatchReceiver(arrived), logger: new Logger<RedisReceiver>(log));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await using var stranger = await ConnectionMultiplexer.ConnectAsync(options.Configuration!);

        await stranger.GetSubscriber().PublishAsync(RedisChannel.Literal($"{options.Prefix}:00002"), "garbage");
        await sender.Services.GetRequiredService<IOutputBuffer>().WriteAsync(OutputHandle.Connection(2, 1), "behind it");

        await arrived.WaitForMessagesAsync(1).WithinDeadline();
        Assert.Equal(["behind it"], arrived.Texts);
        Assert.Equal(1, log.Count(204));
    }

    [Fact]
    public async Task The_end_of_a_receiver_ends_no_other_subscription_of_its_connection()
    {
        var options = await redis.NewOptionsAsync();
        await using var connection = await ConnectionMultiplexer.ConnectAsync(options.Configuration!);
        options.Configuration = null;
        var pattern = RedisChannel.Pattern($"{options.Prefix}:*");
        var receiver = new RedisReceiver(options, new NodeNumber(2), new BatchReceiver(new CollectingTransport()), connection);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        var successor = new CollectingTransport();
        await using var next = new RedisReceiver(options, new NodeNumber(2), new BatchReceiver(successor), connection);
        await next.StartAsync(CancellationToken.None).WithinDeadline();
        var own = await connection.GetSubscriber().SubscribeAsync(pattern);

        await receiver.DisposeAsync().AsTask().WithinDeadline();
        await using var sender = new RedisTransport(options, connection);
        await using var output = new OutputBuffer(sender, new OutputBufferOptions { Node = 1 });
        await output.WriteAsync(OutputHandle.Connection(2, 1), "hello");

        await successor.WaitForMessagesAsync(1).WithinDeadline();
        await own.ReadAsync().AsTask().WithinDeadline();
    }

    [Fact]
    public async Task A_next_hop_that_does_not_end_when_it_is_cancelled_holds_up_no_stop()
    {
        var options = await redis.NewOptionsAsync();
        using var sender = await StartAsync(options, 1);
        var stuck = new StuckHop();
        await using var receiver = new RedisReceiver(options, new NodeNumber(2), new BatchReceiver(stuck));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await sender.Services.GetRequiredService<IOutputBuffer>().WriteAsync(OutputHandle.Connection(2, 1), "in hand");
        await stuck.Entered.WithinDeadline();

        await receiver.StopAsync(CancellationToken.None).WithinDeadline();

        Assert.Equal(0, receiver.GetStatistics().DeliveredMessages);
        stuck.Release();
    }

    [Fact]
    public void A_buffer_whose_health_check_would_have_the_name_of_another_ones_is_refused()
    {
        var services = new ServiceCollection();
        services.AddBatchKit("redis");

        var error = Assert.Throws<InvalidOperationException>(() => services.AddBatchKit().UseRedis());

        Assert.Contains("'batchkit-redis'", error.Message, StringComparison.Ordinal);
        Assert.Contains("'redis'", error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task The_applications_connection_is_used_and_stays_open()
    {
        var options = await redis.NewOptionsAsync();
        await using var connection = await ConnectionMultiplexer.ConnectAsync(options.Configuration!);
        options.Configuration = null;
        using (var host = await StartAsync(options, 1, connection))
        {
            await host.Services.GetRequiredService<IOutputBuffer>().WriteAsync(Room, "hello");
            Assert.Equal(HealthStatus.Healthy, await HealthOf(host));
            await host.StopAsync();
        }

        Assert.True(connection.IsConnected);
        // The receiver does not wait until the server has ended its subscription, because the server may be down.
        await Until.TrueAsync(async () => await connection.GetSubscriber().PublishAsync(RedisChannel.Literal($"{options.Prefix}:xxxxx"), "no one") == 0);
    }

    [Fact]
    public async Task Output_for_a_node_that_no_one_is_fails()
    {
        var options = await redis.NewOptionsAsync();
        using var sender = await StartAsync(options, 1);
        var output = sender.Services.GetRequiredService<OutputBuffer>();
        var nowhere = OutputHandle.Connection(9, 1);

        output.Write(nowhere, "hello");

        await Assert.ThrowsAsync<OutputDeliveryException>(() => output.FlushAsync(nowhere).WithinDeadline());
    }

    [Fact]
    public async Task A_frame_that_is_signed_for_another_node_is_rejected()
    {
        var options = await redis.NewOptionsAsync();
        var arrived = new CollectingTransport();
        var batches = new BatchReceiver(arrived, new BatchReceiverOptions { Signer = new FrameSigner(SignedFrames.Key) });
        await using var receiver = new RedisReceiver(options, new NodeNumber(1), batches);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await using var thief = await ConnectionMultiplexer.ConnectAsync(options.Configuration!);

        foreach (var frame in new[] { SignedFrames.For(2, "other"), SignedFrames.For(1, "own"), SignedFrames.ForAll("all") })
            await thief.GetSubscriber().PublishAsync(RedisChannel.Literal($"{options.Prefix}:00001"), frame);

        await arrived.WaitForMessagesAsync(2).WithinDeadline();
        Assert.Equal(["own", "all"], arrived.Texts);
        Assert.Equal(1, batches.GetStatistics().RejectedFrames);
    }

    [Fact]
    public async Task A_receiver_subscribes_at_no_server_that_is_not_connected()
    {
        using var host = await StartAsync(new RedisOptions { Configuration = "127.0.0.1:1,connectTimeout=100" }, 1);

        var report = await host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync(static check => check.Name == "batchkit-redis");

        Assert.Contains("is not connected. Check that the server runs", report.Entries["batchkit-redis"].Description, StringComparison.Ordinal);
    }

    [Fact]
    public void Settings_outside_their_range_are_refused()
    {
        Assert.Throws<Microsoft.Extensions.Options.OptionsValidationException>(() => new RedisTransport(new RedisOptions { Prefix = "a*" }));
        Assert.Throws<Microsoft.Extensions.Options.OptionsValidationException>(() => new RedisTransport(new RedisOptions { MaxFrameBytes = 1 }));
        Assert.Throws<Microsoft.Extensions.Options.OptionsValidationException>(() => new RedisTransport(new RedisOptions { Configuration = "host,no=such" }));
    }

    [Theory]
    [InlineData("app[1]:", true)]
    [InlineData("app[1]:", false)]
    [InlineData("app\\", true)]
    [InlineData("app*", true)]
    public async Task A_channel_prefix_with_wildcards_is_refused_at_the_start(string prefix, bool isTheApplications)
    {
        var configuration = $"127.0.0.1:1,connectTimeout=100,abortConnect=false,channelPrefix={prefix}";
        await using var connection = isTheApplications ? await ConnectionMultiplexer.ConnectAsync(configuration) : null;

        var error = await Assert.ThrowsAsync<InvalidOperationException>(() => StartAsync(new RedisOptions { Configuration = isTheApplications ? null : configuration }, 1, connection));

        Assert.Contains($"The ChannelPrefix of {(isTheApplications ? "the application's Redis" : "Redis at 127.0.0.1:1")} is '{prefix}'", error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_channel_prefix_without_wildcards_is_in_front_of_all_channels()
    {
        var options = await redis.NewOptionsAsync();
        await using var connection = await ConnectionMultiplexer.ConnectAsync($"{options.Configuration},channelPrefix=app-1]:");
        await using var watch = await ConnectionMultiplexer.ConnectAsync(options.Configuration!);
        var published = await watch.GetSubscriber().SubscribeAsync(RedisChannel.Literal($"app-1]:{options.Prefix}:xxxxx"));
        options.Configuration = null;
        using var host = await StartAsync(options, 1, connection);

        await host.Services.GetRequiredService<IOutputBuffer>().WriteAsync(Room, "hello");

        await CollectedBy(host).WaitForMessagesAsync(1).WithinDeadline();
        await published.ReadAsync().AsTask().WithinDeadline();
    }
}

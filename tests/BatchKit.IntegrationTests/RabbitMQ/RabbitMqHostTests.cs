using BatchKit.RabbitMQ;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;
using BatchKit.TransportSpecification.Support;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>The transport and the receiver as a host runs them.</summary>
public sealed class RabbitMqHostTests(RabbitMqFixture fixture)
{
    private const string HealthCheck = "batchkit-rabbitmq";

    private readonly LogCollector _log = new();
    private readonly CollectingTransport _arrived = new();

    [Fact]
    public async Task One_scope_is_one_message_on_the_wire()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        var wire = await probe.ListenAsync(options, "1");
        using var host = await StartAsync(server, options.Prefix);
        var output = host.Services.GetRequiredService<IOutputBuffer>();
        var handle = Some.Connection(node: 1);

        await using (output.BeginBufferingScope(handle))
        {
            foreach (var line in Some.Lines(1000))
                output.Write(handle, Some.Bytes(line));
            output.Write(handle, "> "u8, new MessageHeader { Kind = MessageKind.Prompt });
        }

        await _arrived.WaitForMessagesAsync(1001);
        await host.StopAsync();
        Assert.Equal(1u, await probe.CountAsync(wire));
        Assert.Equal([.. Some.Lines(1000), "> "], _arrived.Texts);
    }

    [Fact]
    public async Task A_thousand_writes_outside_a_scope_are_far_fewer_messages_in_order()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        var wire = await probe.ListenAsync(options, "1");
        using var host = await StartAsync(server, options.Prefix);
        var output = host.Services.GetRequiredService<IOutputBuffer>();
        var handle = Some.Connection(node: 1);

        foreach (var line in Some.Lines(1000))
            output.Write(handle, Some.Bytes(line));
        await _arrived.WaitForMessagesAsync(1000);

        await host.StopAsync();
        Assert.InRange(await probe.CountAsync(wire), 1u, 200u);
        Assert.Equal(Some.Lines(1000), _arrived.Texts);
    }

    [Fact]
    public async Task Output_for_this_node_stays_in_process_and_a_group_reaches_both_nodes_once()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        var local = new CollectingTransport();
        using var far = await StartAsync(server, options.Prefix, node: 2);
        using var near = await StartAsync(server, options.Prefix, node: 1, configure: builder => builder.UseLocal(_ => local), receives: local);
        var output = near.Services.GetRequiredService<IOutputBuffer>();

        output.Write(Some.Connection(node: 1), "near"u8);
        output.Write(Some.Group(), "group"u8);
        output.Write(Some.Connection(node: 2), "far"u8);
        await output.FlushAsync();
        await _arrived.WaitForMessagesAsync(2);

        // Once the receiver has stopped, whatever its own queue held has been taken, the group's frame among it.
        await near.StopAsync();
        Assert.Equal(new[] { "group", "far" }, _arrived.Texts);
        Assert.Equal(new[] { "group", "near" }, local.Texts.Order(StringComparer.Ordinal).ToArray());
    }

    [Fact]
    public async Task Input_travels_to_the_game_by_the_same_parts_and_keeps_the_players_handle()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        using var game = await StartAsync(server, options.Prefix, node: 1);
        using var gateway = await StartAsync(server, options.Prefix, node: 2, receives: new CollectingTransport(), rabbit: rabbit => rabbit.DestinationNode = 1);
        var player = Some.Connection(node: 2);

        gateway.Services.GetRequiredService<IOutputBuffer>().Write(player, "look"u8);
        await _arrived.WaitForMessagesAsync(1);

        Assert.Equal(player, Assert.Single(_arrived.Messages).Handle);
    }

    [Fact]
    public async Task Output_for_a_node_that_is_gone_is_reported_to_who_flushes_and_counted_as_failed()
    {
        using var host = await StartAsync(await fixture.GetAsync(), Some.Name("test"), rabbit: rabbit => rabbit.UnroutableGrace = TimeSpan.Zero);
        var output = host.Services.GetRequiredService<IOutputBuffer>();
        var gone = Some.Connection(node: 9);

        output.Write(gone, "lost"u8);
        output.Write(Some.Connection(node: 1), "here"u8);
        await Assert.ThrowsAsync<OutputDeliveryException>(async () => await output.FlushAsync(gone));
        await _arrived.WaitForMessagesAsync(1);

        Assert.Equal(1, output.GetStatistics().FailedMessages);
    }

    [Fact]
    public async Task Health_tells_of_a_next_transport_that_fails()
    {
        var server = await fixture.GetAsync();
        var failing = new ScriptedTransport(_arrived).Fail(sends: 1000);
        using var host = await StartAsync(server, Some.Name("test"), receives: failing);
        var output = host.Services.GetRequiredService<IOutputBuffer>();

        output.Write(Some.Connection(node: 1), "a"u8);
        var health = await WaitForHealthAsync(host, HealthStatus.Degraded);

        Assert.Contains("in a row", health.Description, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_host_starts_while_the_broker_is_down_says_why_and_sends_when_it_is_up()
    {
        RequiredServer.SkipWhen(RabbitMqServer.WhyNotInstalled);
        await using var server = await RabbitMqServer.StartOwnAsync();
        await server.StopAsync();
        using var host = await StartAsync(server, Some.Name("test"), node: 1);
        var output = host.Services.GetRequiredService<IOutputBuffer>();

        foreach (var line in Some.Lines(100))
            output.Write(Some.Connection(node: 1), Some.Bytes(line));
        var down = await CheckHealthAsync(host);
        var waiting = output.GetStatistics().PendingMessages;
        await server.StartAsync();
        await _arrived.WaitForMessagesAsync(100);
        var up = await WaitForHealthAsync(host, HealthStatus.Healthy);

        Assert.Equal(HealthStatus.Unhealthy, down.Status);
        Assert.Contains($"127.0.0.1:{server.Port}", down.Description, StringComparison.Ordinal);
        Assert.Equal(100, waiting);
        Assert.Equal(HealthStatus.Healthy, up.Status);
    }

    [Fact]
    public async Task A_stop_sends_what_is_pending()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        var wire = await probe.ListenAsync(options, "1");
        using var host = await StartAsync(server, options.Prefix);
        var output = host.Services.GetRequiredService<IOutputBuffer>();
        var handle = Some.Connection(node: 1);
        output.BeginBufferingScope(handle);
        foreach (var line in Some.Lines(10_000))
            output.Write(handle, Some.Bytes(line));

        await host.StopAsync().WithinDeadline();

        var frames = await probe.TakeFramesAsync(wire);
        Assert.Equal(Some.Lines(10_000), frames.SelectMany(frame => frame.Texts).ToArray());
        Assert.Equal(10_000, output.GetStatistics().AcknowledgedMessages);
    }

    [Fact]
    public async Task A_stop_with_the_broker_down_logs_what_was_left()
    {
        var port = FreePort.Take(1)[0];
        using var host = Build("test", rabbit => rabbit.Hosts = [$"127.0.0.1:{port}"], output: buffer => buffer.DrainTimeout = TimeSpan.FromMilliseconds(100));
        await host.StartAsync();
        host.Services.GetRequiredService<IOutputBuffer>().Write(Some.Connection(node: 1), "left"u8);

        await host.StopAsync().WithinDeadline();

        Assert.Contains("1 messages not sent", _log.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_wrong_password_is_named_by_health_and_is_in_no_log_or_error()
    {
        const string secret = "s3cr3t-of-this-test";
        var server = await fixture.GetAsync();
        using var host = await StartAsync(server, Some.Name("test"), rabbit: rabbit => rabbit.Password = secret);
        var output = host.Services.GetRequiredService<IOutputBuffer>();
        output.Write(Some.Connection(node: 1), "a"u8);

        var health = await CheckHealthAsync(host);
        var failure = await Assert.ThrowsAsync<IOException>(async () => await host.Services.GetRequiredKeyedService<RabbitMqTransport>(Options.DefaultName)
            .SendAsync(new[] { Some.Batch(Some.Connection(node: 1), Some.Producer(), 1, "b") }, CancellationToken.None));

        Assert.Equal(HealthStatus.Unhealthy, health.Status);
        Assert.Contains("refused the login", health.Description, StringComparison.Ordinal);
        Assert.DoesNotContain(secret, $"{health.Description}{failure}{_log.Text}", StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("broker:0")]
    [InlineData("amqp://user:password@broker")]
    [InlineData("")]
    public async Task A_host_that_is_none_stops_the_start_and_is_not_repeated(string name)
    {
        using var host = Build("test", rabbit => rabbit.Hosts = ["broker", name]);

        var failure = await Assert.ThrowsAsync<OptionsValidationException>(() => host.StartAsync());

        Assert.Contains("Hosts[1]", failure.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("password@", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_frame_limit_that_cannot_hold_a_batch_stops_the_start()
    {
        using var host = Build("test", rabbit => rabbit.MaxFrameBytes = 100_000);

        var failure = await Assert.ThrowsAsync<OptionsValidationException>(() => host.StartAsync());

        Assert.Contains(nameof(RabbitMqOptions.MaxFrameBytes), failure.Message, StringComparison.Ordinal);
        Assert.Contains(nameof(OutputBufferOptions.MaxBatchBytes), failure.Message, StringComparison.Ordinal);
    }

    private static async Task<HealthReportEntry> CheckHealthAsync(IHost host) =>
        (await host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync()).Entries[HealthCheck];

    private static async Task<HealthReportEntry> WaitForHealthAsync(IHost host, HealthStatus status)
    {
        using var deadline = new CancellationTokenSource(Deadline.Time);
        while (true)
        {
            var health = await CheckHealthAsync(host);
            if (health.Status == status)
                return health;
            await Task.Delay(TimeSpan.FromMilliseconds(50), deadline.Token);
        }
    }

    private async Task<IHost> StartAsync(RabbitMqServer server, string prefix, int node = 1, Action<BatchKitBuilder>? configure = null,
        IBatchTransport? receives = null, Action<RabbitMqOptions>? rabbit = null)
    {
        var host = Build(prefix, options =>
        {
            RabbitMqSome.Configure(options, server, server.Port, prefix);
            rabbit?.Invoke(options);
        }, output: buffer => buffer.Node = node, builder: configure, receives: receives);
        await host.StartAsync().WithinDeadline();
        return host;
    }

    private IHost Build(string prefix, Action<RabbitMqOptions> rabbit, Action<OutputBufferOptions>? output = null,
        Action<BatchKitBuilder>? builder = null, IBatchTransport? receives = null)
    {
        var host = Host.CreateApplicationBuilder();
        host.Logging.ClearProviders().AddProvider(_log).SetMinimumLevel(LogLevel.Trace);
        var batchKit = host.Services.AddBatchKit(options =>
        {
            options.Node = 1;
            options.MaxRetryDelay = TimeSpan.FromMilliseconds(500);
            output?.Invoke(options);
        });
        builder?.Invoke(batchKit);
        batchKit.UseRabbitMq(options =>
        {
            options.Prefix = prefix;
            rabbit(options);
        }).ReceiveFromRabbitMq(_ => receives ?? _arrived);
        return host.Build();
    }
}

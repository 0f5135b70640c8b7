using System.Globalization;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.RabbitMQ;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>A broker that is killed, absent, frozen or cut off. No other class uses it meanwhile.</summary>
[Trait("Lane", "faults: RabbitMQ is killed, frozen and cut again and again")]
public sealed class BrokerFaultTests(OwnRabbitMqFixture own) : IClassFixture<OwnRabbitMqFixture>
{
    /// <summary>How often the broker is killed; 2 by default.</summary>
    private const string KillsVariable = "BATCHKIT_TEST_MASSTRANSIT_KILLS";

    /// <summary>How often connections are reset and cut, in turn; 4 by default.</summary>
    private const string CutsVariable = "BATCHKIT_TEST_MASSTRANSIT_CUTS";

    private readonly string _prefix = Some.Name("mt");

    private static int Kills => Read(KillsVariable, 2);

    private static int Cuts => Read(CutsVariable, 4);

    [Fact]
    public async Task What_a_broker_confirmed_before_it_was_killed_arrives_in_order_and_once()
    {
        var server = await own.GetAsync();
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix));
        var handle = Some.Connection(1);
        var written = 0;

        for (var kill = 0; kill < Kills; kill++)
        {
            using var isUp = new CancellationTokenSource();
            var writing = WriteUntilAsync(node.Output, handle, written, isUp.Token);
            await node.Received.WaitForMessagesAsync(written + 20);
            if (kill == 0)
                await server.SyncDeclarationsAsync();
            await server.KillAsync();
            await server.StartAsync();
            await isUp.CancelAsync();
            written = await writing;
            await node.Output.FlushAsync(handle).AsTask().WaitAsync(TimeSpan.FromMinutes(1));
            await node.Received.WaitForMessagesAsync(written);
        }

        var statistics = node.Output.GetStatistics();
        Assert.Equal(Some.Lines(written), node.Received.TextsFor(handle));
        Assert.Equal(written, statistics.AcceptedMessages);
        Assert.Equal(written, statistics.AcknowledgedMessages);
    }

    [Fact]
    public async Task A_host_starts_while_the_broker_is_down_says_why_and_sends_when_it_is_up()
    {
        var server = await own.GetAsync();
        await server.KillAsync();
        await using var node = await MassTransitNode.StartAsync(1, MassTransitSome.Settings(server, _prefix));
        var handle = Some.Connection(1);
        node.Output.Write(handle, Some.Bytes("waits"));
        var whileDown = await WaitForReasonAsync(node);

        await server.StartAsync();

        await node.Received.WaitForMessagesAsync(1);
        Assert.Equal(HealthStatus.Unhealthy, whileDown.Status);
        Assert.Contains($"{server.Host}:{server.Port}", whileDown.Description, StringComparison.Ordinal);
        Assert.DoesNotContain("guest:guest", whileDown.Description, StringComparison.Ordinal);
        await node.Receiver.WaitUntilReadyAsync().WithinDeadline();
        await node.WaitForHealthAsync(HealthStatus.Healthy);
    }

    [Fact]
    public async Task A_host_stops_within_its_limits_while_the_broker_is_down_and_its_log_names_the_settings()
    {
        RequiredServer.SkipWhen(RabbitMqServer.WhyNotInstalled);
        var port = FreePort.Take(1)[0];
        var log = new LogCollector();
        var node = await MassTransitNode.StartAsync(1, options =>
        {
            options.RabbitMq = new() { Hosts = ["127.0.0.1"], Port = port };
            options.StopTimeout = TimeSpan.FromSeconds(1);
        }, configureOutput: options => options.DrainTimeout = TimeSpan.FromSeconds(1), addServices: services => services.AddSingleton<ILoggerProvider>(log));
        node.Output.Write(Some.Connection(1), Some.Bytes("lost"));
        await log.WaitForAsync(1);

        await node.StopAsync().WithinDeadline();

        Assert.All(log.Entries.Where(static entry => entry.Id is 1 or 221), static entry => Assert.Contains("Connection refused. Check that the broker runs, and the settings of RabbitMq", entry.Text, StringComparison.Ordinal));
        // It receives nothing before either, so that nothing ended.
        Assert.Equal(0, log.Count(213));

        var statistics = node.Output.GetStatistics();
        Assert.Equal(statistics.AcceptedMessages, statistics.AcknowledgedMessages + statistics.FailedMessages + statistics.DroppedMessages);
        Assert.Equal(0, statistics.AcknowledgedMessages);
        await node.DisposeAsync();
    }

    [Fact]
    public async Task Connections_that_are_reset_and_cut_in_mid_frame_lose_and_double_nothing()
    {
        var server = await own.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix, proxy.Port));
        var handle = Some.Connection(1);
        var written = 0;

        for (var round = 0; round < Cuts; round++)
        {
            using var isBroken = new CancellationTokenSource();
            var writing = WriteUntilAsync(node.Output, handle, written, isBroken.Token);
            await node.Received.WaitForMessagesAsync(written + 20);
            var connections = proxy.AcceptedConnections;
            if (round % 2 == 0)
                proxy.ResetAll();
            else
                proxy.CutAfter(777);
            await Until.TrueAsync(() => proxy.AcceptedConnections > connections);
            await isBroken.CancelAsync();
            written = await writing;
            await node.Output.FlushAsync(handle).WithinDeadline();
            await node.Received.WaitForMessagesAsync(written);
        }

        Assert.Equal(Some.Lines(written), node.Received.TextsFor(handle));
    }

    [Fact]
    public async Task A_send_over_a_connection_that_is_reset_fails_with_one_line()
    {
        var server = await own.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix, proxy.Port));
        var errors = new List<string>();

        // Not each reset finds the send on its way.
        for (var number = 1; errors.Count < 5; number++)
        {
            var sending = node.Transport.SendAsync(new[] { Some.Batch(Some.Connection(1), Some.Producer(), number, "line") }, TestContext.Current.CancellationToken).AsTask();
            proxy.ResetAll();
            if (await Record.ExceptionAsync(() => sending.WithinDeadline()) is { } error)
                errors.Add(error.Message);
        }

        Assert.All(errors, static error => Assert.DoesNotContain("\n", error, StringComparison.Ordinal));
    }

    [Fact]
    public async Task A_frozen_broker_holds_no_send_past_its_limit()
    {
        var server = await own.GetAsync();
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix, configure: options => options.PublishTimeout = TimeSpan.FromSeconds(1)));
        var handle = Some.Connection(1);
        server.Freeze();

        await Assert.ThrowsAsync<TimeoutException>(() =>
            node.Transport.SendAsync(new[] { Some.Batch(handle, Some.Producer(), 1, "late") }, CancellationToken.None).WithinDeadline());

        server.Thaw();
        node.Output.Write(handle, Some.Bytes("after"));
        await node.Output.FlushAsync(handle).WithinDeadline();
        await Until.TrueAsync(() => node.Received.TextsFor(handle).Contains("after"));
    }

    private static int Read(string variable, int usual) => int.TryParse(Environment.GetEnvironmentVariable(variable), CultureInfo.InvariantCulture, out var given) ? given : usual;

    private static async Task<int> WriteUntilAsync(OutputBuffer output, OutputHandle handle, int start, CancellationToken cancellationToken)
    {
        var written = start;
        while (!cancellationToken.IsCancellationRequested)
        {
            output.Write(handle, Some.Bytes($"line {written++}"));
            await Task.Delay(TimeSpan.FromMilliseconds(1), CancellationToken.None);
        }

        return written;
    }

    private static async Task<HealthReportEntry> WaitForReasonAsync(MassTransitNode node)
    {
        var health = await node.CheckHealthAsync();
        await Until.TrueAsync(async () =>
        {
            health = await node.CheckHealthAsync();
            return health.Exception is not null;
        });
        return health;
    }
}

using System.Diagnostics;
using BatchKit.IntegrationTests.Hostile;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Certificates;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using static BatchKit.IntegrationTests.RabbitMQ.RabbitMqEnds;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>Loggers and callbacks that throw, callers with ambient state, and settings that change: both ends go on, and health says what happened.</summary>
public sealed class RabbitMqSurroundingsTests(RabbitMqFixture fixture, OwnRabbitMqFixture own) : IClassFixture<OwnRabbitMqFixture>
{
    private readonly RabbitMqTestHost _hosts = new();
    private readonly CollectingTransport _arrived = new();

    [Theory]
    [InlineData("first")]
    [InlineData("second")]
    [InlineData("random")]
    [InlineData("always")]
    public async Task A_logger_that_throws_stops_no_loop_and_health_is_degraded(string call)
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        // The buffer has a health check of its own for what its logger throws.
        var loggers = ThrowingLoggers.At(call, "BatchKit.RabbitMQ");
        using var host = await _hosts.StartAsync(server, Some.Name("test"), configure: builder => builder.Services.AddSingleton<ILoggerProvider>(loggers),
            rabbit: options => options.Hosts = [$"127.0.0.1:{proxy.Port}"]);
        var output = host.Services.GetRequiredService<IOutputBuffer>();
        var handle = Some.Connection(node: 1);

        for (var round = 0; round < 3; round++)
        {
            output.Write(handle, Some.Bytes($"line {round}"));
            await _hosts.Arrived.WaitForMessagesAsync(round + 1);
            var connections = proxy.AcceptedConnections;
            proxy.ResetAll();
            await Until.TrueAsync(() => proxy.AcceptedConnections > connections);
        }

        output.Write(handle, "line 3"u8);
        await _hosts.Arrived.WaitForMessagesAsync(4);
        var health = await RabbitMqTestHost.WaitForHealthAsync(host, HealthStatus.Degraded);
        await host.StopAsync().WithinDeadline();
        Assert.Equal(Some.Lines(4), _hosts.Arrived.Texts);
        Assert.True(loggers.Thrown > 0);
        Assert.Contains("Loggers, listeners", health.Description, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    public async Task A_certificate_callback_that_throws_is_a_fault_and_the_next_attempt_connects(int call)
    {
        var server = await own.GetAsync();
        using var certificate = TestAuthority.MakeSelfSigned();
        var port = await server.ListenForTlsAsync(certificate);
        var calls = 0;
        var options = RabbitMqSome.Options(server, port, options =>
        {
            options.UseTls = true;
            options.ValidateServerCertificate = (_, _, _, _) => Interlocked.Increment(ref calls) <= call ? throw new NotSupportedException("The callback fails.") : true;
            options.ReconnectDelay = TimeSpan.FromMilliseconds(10);
        });

        await using var receiver = await CreateAsync(options, _arrived);
        var fault = receiver.Fault;
        await using var transport = new RabbitMqTransport(options);
        await Until.TrueAsync(() => receiver.Fault is null);
        await SendLinesAsync(transport, count: 2);

        await _arrived.WaitForMessagesAsync(2);
        Assert.Contains("The callback fails.", fault, StringComparison.Ordinal);
        Assert.Equal(Some.Lines(2), _arrived.Texts);
    }

    [Fact]
    public async Task A_certificate_callback_that_throws_at_a_later_call_ends_nothing()
    {
        var server = await own.GetAsync();
        using var certificate = TestAuthority.MakeSelfSigned();
        var port = await server.ListenForTlsAsync(certificate);
        await using var proxy = TcpProxy.Start(server.Host, port);
        var (calls, failing) = (0, Random.Shared.Next(3, 9));
        var options = RabbitMqSome.Options(server, proxy.Port, options =>
        {
            options.UseTls = true;
            options.ValidateServerCertificate = (_, _, _, _) => Interlocked.Increment(ref calls) == failing ? throw new NotSupportedException("The callback fails.") : true;
            options.ReconnectDelay = TimeSpan.FromMilliseconds(10);
        });
        await using var path = await RabbitMqPath.StartAsync(options, options);

        var lines = await WriteAcrossResetsAsync(path.Output, Some.Connection(RabbitMqPath.Node), path.Arrived, proxy, () => Volatile.Read(ref calls) > failing);

        Assert.Equal(Some.Lines(lines), path.Arrived.Texts);
        path.AssertAllAcknowledged();
    }

    [Fact]
    public async Task An_activity_listener_that_throws_at_deliveries_loses_nothing_and_reorders_nothing()
    {
        var server = await fixture.GetAsync();
        var node = Random.Shared.Next(1000, OutputHandle.MaxNode);
        var (key, deliveries) = ($"{node}", 0);
        using var listener = new ActivityListener
        {
            ShouldListenTo = static source => source.Name == "RabbitMQ.Client.Subscriber",
            Sample = static (ref ActivityCreationOptions<ActivityContext> _) => ActivitySamplingResult.AllDataAndRecorded,
            ActivityStarted = activity =>
            {
                // Other tests' deliveries begin beside this one's.
                if (activity.OperationName.Split(' ').Contains(key, StringComparer.Ordinal) && Interlocked.Increment(ref deliveries) is 1 or 4 or 5)
                    throw new NotSupportedException("The listener fails.");
            },
        };
        ActivitySource.AddActivityListener(listener);
        var options = RabbitMqSome.Options(server, options => options.ReconnectDelay = TimeSpan.FromMilliseconds(10));
        await using var receiver = await StartAsync(options, _arrived, node);
        await using var transport = new RabbitMqTransport(options);
        var (handle, producer) = (Some.Connection(node), Some.Producer());

        for (var line = 0; line < 20; line++)
            await transport.SendAsync(new[] { Some.Batch(handle, producer, line + 1, $"line {line}") }, CancellationToken.None);

        await _arrived.WaitForMessagesAsync(20);
        Assert.Equal(Some.Lines(20), _arrived.Texts);
        Assert.True(deliveries > 20);
        await Until.TrueAsync(() => receiver.Fault is null);
    }

    [Fact]
    public async Task Nothing_of_a_callers_surroundings_reaches_a_background_loop()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var options = RabbitMqSome.Options(server, proxy.Port);
        // Connections that were lost are logged by their own loops, all else of the receiver by the receiver's.
        var receiving = new AmbientProbe(_arrived) { BackgroundIds = [220, 222, 212, 213] };
        var sending = new AmbientProbe(_arrived) { BackgroundIds = [222] };
        await using var receiver = new RabbitMqReceiver(options, Node, new BatchReceiver(receiving), logger: new Logger<RabbitMqReceiver>(receiving));
        await using var transport = new RabbitMqTransport(options, logger: new Logger<RabbitMqTransport>(sending));

        await Ambient.RunAsync(async () =>
        {
            await receiver.StartAsync(CancellationToken.None).WithinDeadline();
            await SendLinesAsync(transport, count: 3);
        });
        await _arrived.WaitForMessagesAsync(3);
        proxy.ResetAll();

        await Until.TrueAsync(() => receiving.LoggedIds.Contains(222) && sending.LoggedIds.Contains(222) && receiving.LoggedIds.Count(id => id == 212) > 1);
        Assert.Empty(receiving.Found);
        Assert.Empty(sending.Found);
    }

    [Fact]
    public async Task Settings_that_change_after_the_start_have_no_effect()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var options = RabbitMqSome.Options(server, proxy.Port);
        await using var receiver = await StartAsync(options, _arrived);
        await using var transport = new RabbitMqTransport(options);

        options.Hosts.Clear();
        options.Hosts = [];
        options.Password = "changed";
        options.Prefix = "changed";
        options.Durable = false;
        options.MaxFrameBytes = 1;
        options.DestinationNode = 9;
        options.PublishTimeout = TimeSpan.Zero;
        var connections = proxy.AcceptedConnections;
        proxy.ResetAll();
        await Until.TrueAsync(() => proxy.AcceptedConnections > connections && receiver.Fault is null);
        await SendLinesAsync(transport, count: 3);

        await _arrived.WaitForMessagesAsync(3);
        Assert.Equal(Some.Lines(3), _arrived.Texts);
        Assert.Equal((8 * 1024 * 1024) - 1024, transport.MaxMessageBytes);
    }
}

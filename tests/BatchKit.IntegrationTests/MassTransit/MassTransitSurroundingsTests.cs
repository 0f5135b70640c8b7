using BatchKit.IntegrationTests.Hostile;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.MassTransit;
using BatchKit.Testing;
using BatchKit.TestServers.Certificates;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;
using MassTransit;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>Loggers and callbacks that throw, callers with ambient state, and settings that change: a buffer on a MassTransit bus goes on, and health says what happened.</summary>
public sealed class MassTransitSurroundingsTests(RabbitMqFixture fixture, OwnRabbitMqFixture own) : IClassFixture<OwnRabbitMqFixture>
{
    private readonly string _prefix = Some.Name("mt");

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
        var loggers = ThrowingLoggers.At(call, "MassTransit");
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix, proxy.Port),
            addServices: services => services.AddSingleton<ILoggerProvider>(loggers).AddLogging(logging => logging.SetMinimumLevel(LogLevel.Trace)));
        var handle = Some.Connection(1);

        for (var round = 0; round < 2; round++)
        {
            node.Output.Write(handle, Some.Bytes($"line {round}"));
            await node.Received.WaitForMessagesAsync(round + 1);
            var connections = proxy.AcceptedConnections;
            proxy.ResetAll();
            await Until.TrueAsync(() => proxy.AcceptedConnections > connections);
        }

        node.Output.Write(handle, "line 2"u8);
        await node.Received.WaitForMessagesAsync(3);
        await node.WaitForHealthAsync(HealthStatus.Degraded);
        await node.StopAsync().WithinDeadline();
        Assert.Equal(Some.Lines(3), node.Received.Texts);
        Assert.True(loggers.Thrown > 0);
    }

    [Fact]
    public async Task A_filter_of_the_bus_that_throws_what_cannot_be_read_fails_its_frame_alone()
    {
        var sends = 0;
        var bus = Bus.Factory.CreateUsingInMemory(configure => configure.ConfigureSend(send => send.UseExecute(_ =>
        {
            if (++sends == 2)
                throw new HostileException();
        })));
        await bus.StartAsync().WithinDeadline();
        await using (var node = await MassTransitNode.StartReadyAsync(1, options => options.Bus = _ => bus))
        {
            var producer = Some.Producer();

            var failure = await Assert.ThrowsAsync<BatchSendException>(() => node.Transport.SendAsync(
                new[] { Some.Batch(Some.Connection(1), producer, 1, "arrives"), Some.Batch(Some.Group(), producer, 2, "does not") }, CancellationToken.None).AsTask());

            await node.Received.WaitForMessagesAsync(1);
            Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Unacknowledged], failure.Outcomes);
            Assert.Contains(nameof(HostileException), failure.Message, StringComparison.Ordinal);
        }

        await bus.StopAsync().WithinDeadline();
    }

    [Fact]
    public async Task A_certificate_callback_that_throws_is_named_and_the_next_attempt_connects()
    {
        var server = await own.GetAsync();
        using var certificate = TestAuthority.MakeSelfSigned();
        var port = await server.ListenForTlsAsync(certificate);
        var isBroken = true;
        await using var node = await MassTransitNode.StartAsync(1, MassTransitSome.Settings(server, _prefix, port, options =>
        {
            options.RabbitMq!.UseTls = true;
            options.RabbitMq.ValidateServerCertificate = (_, _, _, _) => Volatile.Read(ref isBroken) ? throw new NotSupportedException("The callback fails.") : true;
        }));

        node.Output.Write(Some.Connection(1), "line 0"u8);
        await node.WaitForHealthAsync(HealthStatus.Unhealthy, "The callback fails.");
        Volatile.Write(ref isBroken, false);
        await node.Receiver.WaitUntilReadyAsync().WithinDeadline();
        node.Output.Write(Some.Connection(1), "line 1"u8);

        await node.Received.WaitForMessagesAsync(2);
        await node.WaitForHealthAsync(HealthStatus.Healthy);
        Assert.Equal(Some.Lines(2), node.Received.Texts);
    }

    [Fact]
    public async Task A_certificate_callback_that_throws_at_a_later_call_ends_nothing()
    {
        var server = await own.GetAsync();
        using var certificate = TestAuthority.MakeSelfSigned();
        var port = await server.ListenForTlsAsync(certificate);
        await using var proxy = TcpProxy.Start(server.Host, port);
        var (calls, failing) = (0, Random.Shared.Next(3, 6));
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix, proxy.Port, options =>
        {
            options.RabbitMq!.UseTls = true;
            options.RabbitMq.ValidateServerCertificate = (_, _, _, _) => Interlocked.Increment(ref calls) == failing ? throw new NotSupportedException("The callback fails.") : true;
        }));

        var lines = await RabbitMqEnds.WriteAcrossResetsAsync(node.Output, Some.Connection(1), node.Received, proxy, () => Volatile.Read(ref calls) > failing);

        Assert.Equal(Some.Lines(lines), node.Received.Texts);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Nothing_of_a_callers_surroundings_reaches_the_receiver(bool inMemory)
    {
        var server = await fixture.GetAsync();
        AmbientProbe? probe = null;
        MassTransitNode? started = null;

        await Ambient.RunAsync(async () =>
        {
            started = await MassTransitNode.StartReadyAsync(1, inMemory ? static _ => { } : MassTransitSome.Settings(server, _prefix), next => probe = new AmbientProbe(next));
            await started.Transport.SendAsync(new[] { Some.Batch(Some.Connection(1), Some.Producer(), 1, "sent by the caller") }, CancellationToken.None);
            foreach (var line in Some.Lines(3))
                started.Output.Write(Some.Connection(1), Some.Bytes(line));
        });
        await using var node = started!;

        await node.Received.WaitForMessagesAsync(4);
        Assert.Empty(probe!.Found);
    }

    [Fact]
    public async Task Settings_that_change_after_the_start_have_no_effect()
    {
        var server = await fixture.GetAsync();
        MassTransitOptions? options = null;
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix, configure: given => options = given));

        options!.Prefix = "changed";
        options.Durable = false;
        options.MaxFrameBytes = 1;
        options.DestinationNode = 9;
        options.PublishTimeout = TimeSpan.Zero;
        options.RabbitMq!.Hosts = [];
        options.RabbitMq = null;
        node.Output.Write(Some.Connection(1), "unchanged"u8);
        node.Output.Write(Some.Group(), "to the group"u8);

        await node.Received.WaitForMessagesAsync(2);
        Assert.Equal(["unchanged", "to the group"], node.Received.Texts);
    }
}

using BatchKit.IntegrationTests.MassTransit;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using MassTransit;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using RabbitMQ.Client;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>A process that sends and receives while the broker is in a memory alarm, with frames that wait for its receiver.</summary>
[Trait("Lane", "night: a broker is in an alarm, once for each way to connect")]
public sealed class AlarmedReceiverTests(OwnRabbitMqFixture fixture) : IClassFixture<OwnRabbitMqFixture>
{
    private const int Waiting = 200;

    // The broker takes the first message that comes over a connection, and then blocks it.
    private const int Meanwhile = 2;
    private const string Alarm = "accepts no messages now: low on memory";

    private static readonly TimeSpan Short = TimeSpan.FromMilliseconds(100);

    private static readonly OutputHandle Handle = Some.Connection(RabbitMqPath.Node);

    private readonly string _name = Some.Name("alarm");

    [Fact]
    public async Task Over_connections_of_its_own_it_receives_everything_during_the_alarm()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server, static options => options.PublishTimeout = TimeSpan.FromSeconds(1));
        await using var path = await RabbitMqPath.StartAsync(options, options);
        var held = await HoldAsync(path.Output, path.NextHop);

        await RaiseAsync(server, path.Output, async () =>
        {
            await Until.TrueAsync(async () => await path.Transport.FindFaultAsync(CancellationToken.None) is { } fault && fault.Contains(Alarm, StringComparison.Ordinal));
            held.Release();
            await path.Arrived.WaitForMessagesAsync(Waiting);
        });

        await AssertWholeAsync(path.Arrived);
    }

    [Fact]
    public async Task Over_a_MassTransit_bus_of_the_buffers_own_it_receives_everything_during_the_alarm_and_its_health_names_it()
    {
        var server = await fixture.GetAsync();
        ScriptedTransport? nextHop = null;
        await using var node = await MassTransitNode.StartReadyAsync(
            RabbitMqPath.Node,
            MassTransitSome.Settings(server, _name, configure: static options => options.PublishTimeout = TimeSpan.FromSeconds(1)),
            wrap: inner => nextHop = new ScriptedTransport(inner));
        var held = await HoldAsync(node.Output, nextHop!);
        var connections = await CountAsync(server, "list_connections");

        await RaiseAsync(server, node.Output, async () =>
        {
            await node.WaitForHealthAsync(HealthStatus.Unhealthy, Alarm);
            held.Release();
            await node.Received.WaitForMessagesAsync(Waiting);
        });

        await AssertWholeAsync(node.Received);
        await node.WaitForHealthAsync(HealthStatus.Healthy);
        await AssertNoneLeftAsync(server, "list_connections", connections);
    }

    [Fact]
    public async Task Over_a_connection_of_the_application_it_names_the_alarm_and_leaks_no_channel()
    {
        var server = await fixture.GetAsync();
        await using var connection = await new ConnectionFactory { Uri = server.Address }.CreateConnectionAsync(_name);
        var options = new RabbitMqOptions
        {
            Connection = connection,
            Prefix = _name,
            PublishTimeout = TimeSpan.FromSeconds(1),
            ConnectTimeout = TimeSpan.FromSeconds(1),
            TopologyCheckInterval = Short,
            ReconnectDelay = Short,
            MaxReconnectDelay = Short,
        };
        await using var path = await RabbitMqPath.StartAsync(options, options);
        var held = await HoldAsync(path.Output, path.NextHop);
        var channels = await CountAsync(server, "list_channels");

        await RaiseAsync(server, path.Output, async () =>
        {
            await Until.TrueAsync(() => path.Receiver.Fault?.Contains(Alarm, StringComparison.Ordinal) == true);
            held.Release();
            for (var look = 0; look < 20; look++)
                Assert.Contains(Alarm, await path.Transport.FindFaultAsync(CancellationToken.None), StringComparison.Ordinal);
            var failures = path.Output.GetStatistics().FailedSends;
            await Until.TrueAsync(() => path.Output.GetStatistics().FailedSends >= failures + 20);
        });

        await AssertWholeAsync(path.Arrived);
        await Until.TrueAsync(() => path.Receiver.Fault is null);
        await AssertNoneLeftAsync(server, "list_channels", channels);
    }

    [Fact]
    public async Task An_alarm_that_the_application_meets_before_the_first_send_is_known()
    {
        var server = await fixture.GetAsync();
        await using var connection = await new ConnectionFactory { Uri = server.Address }.CreateConnectionAsync(_name);
        await using var channel = await connection.CreateChannelAsync();
        await using var transport = new RabbitMqTransport(new RabbitMqOptions { Connection = connection, Prefix = _name, ConnectTimeout = TimeSpan.FromSeconds(1) });
        var blocked = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        connection.ConnectionBlockedAsync += (_, _) =>
        {
            blocked.TrySetResult();
            return Task.CompletedTask;
        };
        await server.SetMemoryAlarmAsync(isOn: true);
        try
        {
            await channel.BasicPublishAsync("", _name, ReadOnlyMemory<byte>.Empty);
            await blocked.Task.WithinDeadline();

            Assert.Contains(Alarm, await transport.FindFaultAsync(CancellationToken.None), StringComparison.Ordinal);
        }
        finally
        {
            await server.SetMemoryAlarmAsync(isOn: false);
        }
    }

    [Fact]
    public async Task Over_the_applications_bus_it_names_the_alarm_and_leaks_no_channel()
    {
        var server = await fixture.GetAsync();
        ScriptedTransport? nextHop = null;
        await using var node = await MassTransitNode.StartReadyAsync(
            RabbitMqPath.Node,
            options =>
            {
                options.Prefix = _name;
                options.Bus = static services => services.GetRequiredService<IBus>();
                options.PublishTimeout = TimeSpan.FromSeconds(1);
                options.TopologyCheckInterval = Short;
            },
            wrap: inner => nextHop = new ScriptedTransport(inner),
            addServices: services => services.AddMassTransit(setup => setup.UsingRabbitMq((_, configure) => ApplicationBusTests.ConnectTo(server, configure))));
        var held = await HoldAsync(node.Output, nextHop!);
        var channels = await CountAsync(server, "list_channels");

        await RaiseAsync(server, node.Output, async () =>
        {
            await node.WaitForHealthAsync(HealthStatus.Unhealthy, Alarm);
            held.Release();
            var failures = node.Output.GetStatistics().FailedSends;
            await Until.TrueAsync(() => node.Output.GetStatistics().FailedSends >= failures + 5);
        });

        await AssertWholeAsync(node.Received);
        await node.WaitForHealthAsync(HealthStatus.Healthy);
        await AssertNoneLeftAsync(server, "list_channels", channels);
    }

    // Frames wait for the receiver, the first of them at the next hop.
    private static async Task<StalledSend> HoldAsync(OutputBuffer output, ScriptedTransport nextHop)
    {
        var held = nextHop.Stall();
        foreach (var line in Some.Lines(Waiting))
        {
            output.Write(Handle, Some.Bytes(line));
            await output.FlushAsync().WithinDeadline();
        }

        await held.EnteredAsync();
        return held;
    }

    private static async Task RaiseAsync(RabbitMqServer server, OutputBuffer output, Func<Task> during)
    {
        await server.SetMemoryAlarmAsync(isOn: true);
        try
        {
            foreach (var line in Some.Lines(Meanwhile, Waiting))
                output.Write(Handle, Some.Bytes(line));
            await during();
        }
        finally
        {
            await server.SetMemoryAlarmAsync(isOn: false);
        }

        await output.FlushAsync().WithinDeadline();
    }

    private static async Task AssertWholeAsync(CollectingTransport arrived)
    {
        await arrived.WaitForMessagesAsync(Waiting + Meanwhile);
        Assert.Equal(Some.Lines(Waiting + Meanwhile), arrived.Texts);
    }

    // Fewer are left when the broker still closed those of the test before at the first count, or a look at the topology was under way.
    private static Task AssertNoneLeftAsync(RabbitMqServer server, string list, int before)
    {
        var now = 0L;
        return Until.TrueAsync(async () => (now = await CountAsync(server, list)) <= before, () => Task.FromResult(now), $"{list} has at most {before}.");
    }

    private static async Task<int> CountAsync(RabbitMqServer server, string list) =>
        (await server.ControlAsync(list, "--quiet", "--no-table-headers", "pid").WithinDeadline()).Split('\n', StringSplitOptions.RemoveEmptyEntries).Length;
}

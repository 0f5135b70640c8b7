using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.MassTransit;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;
using MassTransit;
using MassTransit.RabbitMqTransport;
using Microsoft.Extensions.Logging.Abstractions;
using RabbitMQ.Client;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>Receivers whose first channel ends, while what is to consume on it is never told, as when the connection ends while the broker's answer is read.</summary>
[Trait("Lane", "faults: connections are cut again and again")]
public sealed class LostAnswerTests(RabbitMqFixture fixture)
{
    [Fact]
    public async Task A_receiver_that_is_not_told_of_its_channels_end_consumes_again()
    {
        var bus = CreateBus(await fixture.GetAsync());
        var options = new MassTransitOptions { Prefix = Some.Name("mt") };
        var topology = new UntoldTopology(options, seemsOpen: false);

        await ReceiveAsync(bus, new BusConnection(bus, options, new ConnectionAge(TimeProvider.System)) { Topology = topology }, () => topology.FirstChannel);
    }

    [Fact]
    public async Task A_receiver_whose_channel_seems_open_after_its_connection_has_ended_consumes_again()
    {
        var server = await fixture.GetAsync();
        var options = new MassTransitOptions();
        MassTransitSome.Settings(server, Some.Name("mt"))(options);
        var age = new ConnectionAge(TimeProvider.System);
        using var link = new BusLink(options.RabbitMq!, "sender", "the broker", age, TimeProvider.System, NullLogger.Instance);
        var bus = RabbitMqBus.Create(options.RabbitMq!, "test", link);
        var topology = new UntoldTopology(options, seemsOpen: true);

        await ReceiveAsync(bus, new BusConnection(bus, options, age) { Topology = topology, Link = link }, async () =>
        {
            await topology.FirstChannel;
            link.End();
        });
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    public async Task A_check_that_is_answered_late_is_a_fault_and_holds_up_no_frame(int lease)
    {
        var bus = CreateBus(await fixture.GetAsync());
        var options = new MassTransitOptions { Prefix = Some.Name("mt") };
        var (topology, clock, received) = (new LateTopology(options, lease), new ManualTimeProvider(), new CollectingTransport());
        var connection = new BusConnection(bus, options, new ConnectionAge(TimeProvider.System)) { Topology = topology };
        await bus.StartAsync().WithinDeadline();
        await using (var receiver = new MassTransitReceiver(connection, new NodeNumber(1), new BatchReceiver(received), clock, logger: null))
        await using (var transport = new MassTransitTransport(connection, timeProvider: null))
        await using (var output = new OutputBuffer(transport))
        {
            await receiver.StartAsync(CancellationToken.None);

            await PassesUntilAsync(() => receiver.Fault?.Contains("did not answer", StringComparison.Ordinal) == true);
            output.Write(Some.Connection(1), "arrives"u8);
            await PassesUntilAsync(() => received.MessageCount == 1);
            topology.Answer();
            await PassesUntilAsync(() => receiver.Fault is null);
        }

        await bus.StopAsync().WithinDeadline();

        Task PassesUntilAsync(Func<bool> isSo) => Until.TrueAsync(() =>
        {
            clock.Advance(TimeSpan.FromSeconds(1));
            return isSo();
        });
    }

    private static IBusControl CreateBus(RabbitMqServer server) =>
        Bus.Factory.CreateUsingRabbitMq(configure => configure.Host(server.Host, (ushort)server.Port, server.VirtualHost, host =>
        {
            host.Username(server.UserName);
            host.Password(server.Password);
        }));

    private static async Task ReceiveAsync(IBusControl bus, BusConnection connection, Func<Task> endFirst)
    {
        await bus.StartAsync().WithinDeadline();
        var received = new CollectingTransport();
        await using (var receiver = new MassTransitReceiver(connection, new NodeNumber(1), new BatchReceiver(received), timeProvider: null, logger: null))
        await using (var transport = new MassTransitTransport(connection, timeProvider: null))
        await using (var output = new OutputBuffer(transport))
        {
            await receiver.StartAsync(CancellationToken.None);

            await endFirst().WithinDeadline();
            output.Write(Some.Connection(1), "arrives"u8);

            await received.WaitForMessagesAsync(1);
            await Until.TrueAsync(() => receiver.Fault is null);
        }

        await bus.StopAsync().WithinDeadline();
    }

    /// <summary>RabbitMQ's topology, whose bindings a test changes.</summary>
    private abstract class ChangedTopology(MassTransitOptions options) : BusTopology(options)
    {
        protected RabbitMqTopology Inner { get; } = new(options);

        public override Task<ISendEndpoint> GetDirectAsync(IBus bus, int node) => Inner.GetDirectAsync(bus, node);

        public override Task<ISendEndpoint> GetFanOutAsync(IBus bus) => Inner.GetFanOutAsync(bus);

        public override string GetRoutingKey(int? node) => Inner.GetRoutingKey(node);
    }

    /// <summary>One lease of the node's number is not answered until a test says so.</summary>
    private sealed class LateTopology(MassTransitOptions options, int late) : ChangedTopology(options)
    {
        private readonly TaskCompletionSource _answer = new(TaskCreationOptions.RunContinuationsAsynchronously);
        private int _leases;

        public void Answer() => _answer.SetResult();

        public override void Bind(IReceiveEndpointConfigurator endpoint, int node, EndpointRun run, Func<IConnection, Task> lease) =>
            Inner.Bind(endpoint, node, run, connection => Interlocked.Increment(ref _leases) == late ? _answer.Task : lease(connection));
    }

    /// <summary>What is to consume on the first channel of an endpoint is never told anything.</summary>
    /// <param name="options">The settings.</param>
    /// <param name="seemsOpen">Whether the first channel seems open when its connection has ended; if not, it is closed at once.</param>
    private sealed class UntoldTopology(MassTransitOptions options, bool seemsOpen) : ChangedTopology(options), IFilter<ChannelContext>
    {
        private readonly TaskCompletionSource _firstChannel = new(TaskCreationOptions.RunContinuationsAsynchronously);

        public Task FirstChannel => _firstChannel.Task;

        public override void Bind(IReceiveEndpointConfigurator endpoint, int node, EndpointRun run, Func<IConnection, Task> lease)
        {
            var queue = (IRabbitMqReceiveEndpointConfigurator)endpoint;
            if (seemsOpen && !_firstChannel.Task.IsCompleted)
                queue.ConfigureChannel(channel => channel.UseFilter(new OpenSeemingFilter()));
            Inner.Bind(endpoint, node, run, lease);
            queue.ConfigureChannel(channel => channel.UseFilter(this));
        }

        public async Task Send(ChannelContext context, IPipe<ChannelContext> next)
        {
            if (!_firstChannel.Task.IsCompleted)
            {
                _firstChannel.SetResult();
                // The client may never complete it (version 7.2.2, issue 1976).
                if (!seemsOpen)
                    await context.Channel.AbortAsync();
                await Task.Delay(Timeout.Infinite, TestContext.Current.CancellationToken);
            }

            await next.Send(context);
        }

        public void Probe(ProbeContext context)
        {
        }
    }

    private sealed class OpenSeemingFilter : IFilter<ChannelContext>
    {
        public Task Send(ChannelContext context, IPipe<ChannelContext> next)
        {
            var channel = Interceptor.Of<IChannel>(context.Channel, "get_IsOpen", static () => true);
            return next.Send(Interceptor.Of<ChannelContext>(context, "get_Channel", () => channel));
        }

        public void Probe(ProbeContext context)
        {
        }
    }
}

using BatchKit.HostWorker;
using BatchKit.IntegrationTests.Mqtt;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.HostWorker;
using BatchKit.TestServers.Network;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Stops;

/// <summary>A process that holds a node's number is frozen (SIGSTOP), as a stalled virtual machine is, and goes on when another process has the number.</summary>
[Trait("Lane", "faults: a process is frozen until its broker has noticed")]
public sealed class FrozenHolderTests(RabbitMqFixture rabbitMq, MosquittoFixture mosquitto, NatsFixture nats, PostgresFixture postgres)
{
    private const int Lines = 100;

    private static readonly string Decided = $"Node {HostWorkerSettings.Node} is held by";

    private readonly SharedBrokers _brokers = new(rabbitMq, mosquitto, nats, postgres);

    public static TheoryData<string> Leasing => [BrokerPath.RabbitMq, BrokerPath.Mqtt, BrokerPath.Nats];

    [Theory]
    [MemberData(nameof(Leasing))]
    public Task Its_successor_receives_everything_and_it_says_who_has_its_number_and_receives_nothing(string transport) =>
        _brokers.UseAsync(transport, path => SucceedAsync(path, path, holder => holder.WaitForOutputAsync(Decided)));

    [Fact]
    public Task Over_mqtt_what_it_had_not_read_when_it_froze_is_its_successors_alone() =>
        _brokers.UseAsync(BrokerPath.Mqtt, path => SucceedAsync(path, path, holder => holder.WaitForOutputAsync(Decided), unread: 10));

    [Fact]
    public Task Over_mqtt_it_takes_nothing_from_its_successors_session_before_its_lease_is_decided() => _brokers.UseAsync(BrokerPath.Mqtt, async path =>
    {
        var broker = new Uri(path.Address);
        await using var proxy = TcpProxy.Start(broker.Host, broker.Port);
        // From here on the lease can't be decided, and the receiver, with the same client id as its successor, could connect.
        await SucceedAsync(path, path with { Address = new UriBuilder(broker) { Port = proxy.Port }.Uri.ToString() }, async holder =>
        {
            await holder.WaitForOutputAsync("did not answer CONNECT");
            Assert.DoesNotContain(Decided, holder.Output, StringComparison.Ordinal);
            proxy.Resume();
            await holder.WaitForOutputAsync(Decided);
        }, beforeThaw: () => proxy.Stall("-node-"));
    });

    private static async Task SucceedAsync(BrokerPath path, BrokerPath holdersPath, Func<HostWorkerProcess, Task> waitForDecision, Action? beforeThaw = null, int unread = 0)
    {
        using var holder = HostWorkerProcess.Run(Receiving(holdersPath));
        using var sender = PathHost.Build(services => services.AddBatchKit(options => (options.Node, options.DeliveryTimeout) = (HostWorkerSettings.FarNode, TimeSpan.FromMinutes(10))).SendTo(path, HostWorkerSettings.Node));
        await PathHost.StartAsync(sender);
        var (output, handle) = (sender.Services.GetRequiredService<OutputBuffer>(), Some.Connection(HostWorkerSettings.Node));
        await Until.TrueAsync(async () =>
        {
            output.Write(handle, "ready"u8);
            await Task.Delay(TimeSpan.FromMilliseconds(20));
            return holder.Output.Contains("received ready", StringComparison.Ordinal);
        });

        holder.Freeze();
        // The broker gives these to the holder, whose system keeps them.
        await WriteAsync(output, handle, 0, unread);
        var arrived = new CollectingTransport();
        var slow = new ScriptedTransport(arrived);
        var successor = await StartAsync(path, slow);
        output.Write(handle, "to the successor"u8);
        await Until.TrueAsync(() => arrived.TextsFor(handle).Contains("to the successor"));
        // What the successor has not handled yet waits at the broker.
        var stalled = slow.Stall();
        await WriteAsync(output, handle, unread, Lines / 2);
        beforeThaw?.Invoke();
        holder.Thaw();
        await waitForDecision(holder);
        stalled.Release();
        await WriteAsync(output, handle, Lines / 2, Lines);

        await Until.TrueAsync(() => arrived.TextsFor(handle).Count(static text => text.StartsWith("line", StringComparison.Ordinal)) == Lines);
        Assert.Equal(Some.Lines(Lines), arrived.TextsFor(handle).Where(static text => text.StartsWith("line", StringComparison.Ordinal)));
        Assert.DoesNotContain("received line", holder.Output, StringComparison.Ordinal);
        await PathHost.StopAsync(successor);
        await sender.StopAsync().WithinDeadline();
    }

    private static HostWorkerSettings Receiving(BrokerPath path) => new()
    {
        // The broker notices after twice the heartbeat, or one and a half times the keep-alive.
        Path = path with { KeepAlive = TimeSpan.FromSeconds(2) },
        FirstConnection = 1,
        Group = Some.Name("group"),
        Messages = 0,
        AnnouncedMessages = 0,
        DrainTimeout = TimeSpan.Zero,
        ShutdownTimeout = TimeSpan.FromMinutes(1),
        Receives = true,
    };

    private static async Task WriteAsync(OutputBuffer output, OutputHandle handle, int first, int end)
    {
        for (var line = first; line < end; line++)
        {
            output.Write(handle, Some.Bytes($"line {line}"));
            await output.FlushAsync(handle).WithinDeadline();
        }
    }

    // Until the broker has noticed, the number is taken.
    private static async Task<IHost> StartAsync(BrokerPath path, IBatchTransport next)
    {
        IHost? started = null;
        await Until.TrueAsync(async () =>
        {
            try
            {
                started = await PathHost.StartReceiverAsync(path, HostWorkerSettings.Node, next);
            }
            catch (NodeTakenException)
            {
                // The next attempt may find it free.
            }

            return started is not null;
        });
        return started!;
    }
}

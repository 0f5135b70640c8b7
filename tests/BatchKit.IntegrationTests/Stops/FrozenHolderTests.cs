using BatchKit.HostWorker;
using BatchKit.IntegrationTests.Mqtt;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.HostWorker;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Stops;

/// <summary>A process that holds a node's number is frozen (SIGSTOP), as a stalled virtual machine is, and goes on when another process has the number.</summary>
[Trait("Lane", "faults: a process is frozen until its broker has noticed")]
public sealed class FrozenHolderTests(RabbitMqFixture rabbitMq, MosquittoFixture mosquitto, NatsFixture nats, PostgresFixture postgres)
{
    private const int Lines = 100;

    private readonly SharedBrokers _brokers = new(rabbitMq, mosquitto, nats, postgres);

    public static TheoryData<string> Leasing => [BrokerPath.RabbitMq, BrokerPath.Mqtt, BrokerPath.Nats];

    [Theory]
    [MemberData(nameof(Leasing))]
    public Task Its_successor_receives_everything_and_it_says_who_has_its_number_and_receives_nothing(string transport) => _brokers.UseAsync(transport, async path =>
    {
        var settings = new HostWorkerSettings
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
        using var holder = HostWorkerProcess.Run(settings);
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
        var arrived = new CollectingTransport();
        var successor = await StartAsync(path, arrived);
        output.Write(handle, "to the successor"u8);
        await Until.TrueAsync(() => arrived.TextsFor(handle).Contains("to the successor"));
        holder.Thaw();
        await holder.WaitForOutputAsync($"Node {HostWorkerSettings.Node} is held by");
        for (var line = 0; line < Lines; line++)
        {
            output.Write(handle, Some.Bytes($"line {line}"));
            await output.FlushAsync(handle).WithinDeadline();
        }

        await Until.TrueAsync(() => arrived.TextsFor(handle).Count(static text => text.StartsWith("line", StringComparison.Ordinal)) == Lines);
        Assert.Equal(Some.Lines(Lines), arrived.TextsFor(handle).Where(static text => text.StartsWith("line", StringComparison.Ordinal)));
        Assert.DoesNotContain("received line", holder.Output, StringComparison.Ordinal);
        await PathHost.StopAsync(successor);
        await sender.StopAsync().WithinDeadline();
    });

    // Until the broker has noticed, the number is taken.
    private static async Task<IHost> StartAsync(BrokerPath path, CollectingTransport arrived)
    {
        IHost? started = null;
        await Until.TrueAsync(async () =>
        {
            try
            {
                started = await PathHost.StartReceiverAsync(path, HostWorkerSettings.Node, arrived);
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

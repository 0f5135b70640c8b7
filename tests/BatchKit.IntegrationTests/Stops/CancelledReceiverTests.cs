using BatchKit.HostWorker;
using BatchKit.IntegrationTests.Mqtt;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.MassTransit;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.HostWorker;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Stops;

/// <summary>Receivers whose start and whose stop are cancelled at a random moment, one after another on one node: what was sent arrives in order, and the next one receives.</summary>
[Trait("Lane", "slow: calls are cancelled at random moments")]
public sealed class CancelledReceiverTests(RabbitMqFixture rabbitMq, MosquittoFixture mosquitto, NatsFixture nats, PostgresFixture postgres, ITestOutputHelper log)
{
    private const int Near = 3;
    private const int Far = 2;

    private readonly SharedBrokers _brokers = new(rabbitMq, mosquitto, nats, postgres);

    public static TheoryData<string> Transports => SharedBrokers.Transports;

    [Theory]
    [MemberData(nameof(Transports))]
    public Task Starts_and_stops_that_are_cancelled_lose_nothing_and_keep_the_order(string transport) => _brokers.UseAsync(transport, async path =>
    {
        var (arrived, handle, random, cancelled) = (new NumberedArrivals(), OutputHandle.Connection(Far, 1), new Random(20), 0);
        var sender = PathHost.Build(services => services.AddBatchKit(options => options.Node = Near).SendTo(path, Far));
        // Its queue stays when it stops.
        await RunAsync(Build(path, arrived), static () => Task.CompletedTask);
        await PathHost.StartAsync(sender);
        var output = sender.Services.GetRequiredService<OutputBuffer>();
        var rounds = Cancellations.Count(usual: 10);

        for (var round = 0; round < rounds; round++)
        {
            output.Write(handle, Some.Bytes($"{round}"));
            var receiver = Build(path, arrived);
            cancelled += await Cancellations.RunAsync(receiver.StartAsync, random, TimeSpan.FromMilliseconds(128)) ? 1 : 0;
            cancelled += await Cancellations.RunAsync(receiver.StopAsync, random, TimeSpan.FromMilliseconds(16)) ? 1 : 0;
            await ((IAsyncDisposable)receiver).DisposeAsync().AsTask().WithinDeadline();
        }

        await RunAsync(Build(path, arrived), () => arrived.WaitForNextAsync(handle, rounds));
        await PathHost.StopAsync(sender);
        log.WriteLine($"{rounds} receivers, {cancelled} starts and stops cancelled, {arrived.Repeats} messages again");
        Assert.Empty(arrived.Gaps);
        Assert.True(cancelled > 0, "Every start and stop ended before it was cancelled.");
    });

    private static IHost Build(BrokerPath path, NumberedArrivals arrived) => PathHost.Build(services =>
    {
        services.AddBatchKit(options => options.Node = Far).ReceiveFrom(path, Far, _ => arrived);
        // On a busy machine no receiver may live long enough to consume, and an unused queue is deleted after five minutes.
        services.PostConfigureAll<RabbitMqOptions>(static options => options.QueueExpiry = TimeSpan.FromHours(1));
        services.PostConfigureAll<MassTransitOptions>(static options => options.QueueExpiry = TimeSpan.FromHours(1));
    });

    private static async Task RunAsync(IHost host, Func<Task> meanwhile)
    {
        await PathHost.StartAsync(host);
        await meanwhile();
        await PathHost.StopAsync(host);
    }
}

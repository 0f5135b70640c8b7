using BatchKit.HostWorker;
using BatchKit.IntegrationTests.Mqtt;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.HostWorker;
using BatchKit.TestSupport;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.IntegrationTests.Stops;

/// <summary>A next hop that does not end when its send is cancelled, and whose callback of that throws.</summary>
public sealed class StuckHopTests(RabbitMqFixture rabbitMq, MosquittoFixture mosquitto, NatsFixture nats, PostgresFixture postgres)
{
    private const int Near = 3;
    private const int Far = 2;

    private readonly SharedBrokers _brokers = new(rabbitMq, mosquitto, nats, postgres);

    public static TheoryData<string> Transports => SharedBrokers.Transports;

    [Theory]
    [MemberData(nameof(Transports))]
    public Task It_holds_up_no_stop_and_the_next_receiver_gets_what_it_had_in_hand(string transport) => _brokers.UseAsync(transport, async path =>
    {
        var stuck = new StuckHop();
        var receiver = await PathHost.StartReceiverAsync(path, Far, stuck);
        var sender = PathHost.Build(services => services.AddBatchKit(options => options.Node = Near).SendTo(path, Far));
        await PathHost.StartAsync(sender);
        var handle = OutputHandle.Connection(Far, 1);
        sender.Services.GetRequiredService<OutputBuffer>().Write(handle, "in hand"u8);
        await stuck.Entered.WithinDeadline();

        await PathHost.StopAsync(receiver);

        // RabbitMQ's client closes a connection only when its handlers have ended, so the broker keeps the frame until then, or until the process ends.
        if (transport is BrokerPath.RabbitMq or BrokerPath.MassTransit)
            stuck.Release();
        var arrived = new CollectingTransport();
        var successor = await PathHost.StartReceiverAsync(path, Far, arrived);
        await arrived.WaitForMessagesAsync(handle, 1).WithinDeadline();
        Assert.Equal(["in hand"], arrived.TextsFor(handle));
        stuck.Release();
        await PathHost.StopAsync(successor);
        await PathHost.StopAsync(sender);
    });
}

using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Publishing;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>Random runs of sends, acknowledgements, lost connections and cancelled sends that are sent again, as dispatch does.</summary>
public sealed class PublishQueueRandomTests
{
    private const int Topics = 5;

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    [InlineData(4)]
    [InlineData(5)]
    [InlineData(6)]
    [InlineData(7)]
    [InlineData(8)]
    public async Task Nothing_is_lost_overtaken_or_doubled_without_a_lost_connection(int seed)
    {
        var random = new Random(seed);
        using var queue = new PublishQueue(new MqttOptions { PublishWindow = random.Next(1, 30) }, new ManualTimeProvider());
        var broker = new SimulatedBroker(queue, seed % 2 == 0 ? MqttVersion.V5 : MqttVersion.V311);
        var sender = new ResendingSender(queue, random, Topics);
        var mayBeDoubled = new HashSet<string>();
        broker.Connect(Limits(random));
        for (var step = 0; step < 6000; step++)
        {
            await sender.StepAsync();
            var choice = random.Next(100);
            if (choice < 50)
                Take(broker);
            else if (choice < 97 && broker.Unacknowledged.Count > 0)
                broker.Acknowledge(random.Next(Math.Min(2, broker.Unacknowledged.Count)));
            else if (choice >= 97)
                Lose(broker, random, mayBeDoubled);
        }

        await LoseTwiceAsync(sender, broker, random, mayBeDoubled);
        await sender.FinishAsync(() =>
        {
            var isTaken = Take(broker);
            broker.AcknowledgeAll();
            return isTaken;
        });

        Assert.Equal(sender.Written, broker.Arrived.Select(publish => publish.Text).Distinct().Count());
        Assert.All(broker.Arrived.CountBy(publish => publish.Text).Where(count => count.Value > 1), count => Assert.Contains(count.Key, mayBeDoubled));
        foreach (var topic in broker.Arrived.GroupBy(publish => publish.Topic))
        {
            var first = topic.Select(publish => int.Parse(publish.Text, null)).Distinct().ToArray();
            Assert.Equal(first.Order(), first);
        }

        var statistics = queue.GetStatistics();
        // A message that ends three proven connections alone is refused. By chance it may be any.
        Assert.Equal(statistics.AcceptedMessages, statistics.AcknowledgedMessages + statistics.RefusedMessages);
        Assert.Equal(sender.Written, statistics.AcceptedMessages);
        Assert.Equal(0, statistics.InFlightMessages);
    }

    // Two ends in which nothing is acknowledged: the queue sends the messages in flight one by one, once the connection has answered a ping.
    private static async Task LoseTwiceAsync(ResendingSender sender, SimulatedBroker broker, Random random, HashSet<string> mayBeDoubled)
    {
        for (var end = 0; end < 2; end++)
        {
            await sender.StepAsync();
            Take(broker);
            Lose(broker, random, mayBeDoubled);
        }
    }

    private static bool Take(SimulatedBroker broker)
    {
        var isTaken = broker.Take();
        broker.AnswerPings();
        return isTaken;
    }

    private static void Lose(SimulatedBroker broker, Random random, HashSet<string> mayBeDoubled)
    {
        foreach (var packetId in broker.Unacknowledged)
            mayBeDoubled.Add(broker.Arrived.Last(publish => publish.PacketId == packetId).Text);
        broker.Disconnect();
        broker.Connect(Limits(random));
    }

    private static ConnackPacket Limits(Random random) => new() { ReceiveMaximum = random.Next(1, 25) };
}

using BatchKit.Mqtt.Publishing;
using BatchKit.Testing;

namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>A call for many messages that is cancelled between two calls of others, at each of its steps.</summary>
public sealed class PublishCancellationTests
{
    private const int Neighbours = 3;

    [Fact]
    public async Task A_call_that_is_cancelled_at_any_step_sends_a_first_part_once_and_its_neighbours_whole()
    {
        var (cancellations, wanted) = (0, Cancellations.Count(usual: 1000));
        for (var messages = 1; cancellations < wanted; messages++)
        {
            for (var step = 0; await RunAsync(messages, step); step++)
                cancellations++;
        }
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_cancelled_call_reads_no_properties_that_its_caller_has_changed_since(bool losesConnection)
    {
        const int messages = 8;
        for (var cancelledAt = 0; cancelledAt <= 2 * messages; cancelledAt++)
        {
            using var queue = new PublishQueue(new MqttOptions { PublishWindow = 4 }, new ManualTimeProvider());
            using var cancellation = new CancellationTokenSource();
            var broker = new SimulatedBroker(queue);
            broker.Connect();
            var properties = Enumerable.Range(0, messages).Select(static _ => new KeyValuePair<string, string>[] { new("owner", "mine") }).ToArray();
            var call = queue.PublishManyAsync(Array.ConvertAll(properties, static own => new MqttMessage("a", Some.Bytes("text")) { UserProperties = own }), cancellation.Token).AsTask();

            for (var step = 0; step < cancelledAt; step++)
                Step(broker);
            await cancellation.CancelAsync();
            await ((Task)call).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing | ConfigureAwaitOptions.ContinueOnCapturedContext);
            foreach (var own in properties)
                own[0] = new("owner", "someone else");
            if (losesConnection)
            {
                broker.Disconnect();
                broker.Connect();
            }

            while (Step(broker))
            {
            }

            Assert.All(broker.Arrived, static publish => Assert.True(publish.Bytes.AsSpan().IndexOf("mine"u8) > 0));
        }
    }

    /// <summary>Runs the calls; false when the call ended before the step at which it was to be cancelled.</summary>
    private static async Task<bool> RunAsync(int messages, int cancelledAt)
    {
        using var queue = new PublishQueue(new MqttOptions { PublishWindow = 4 }, new ManualTimeProvider());
        using var cancellation = new CancellationTokenSource();
        var broker = new SimulatedBroker(queue);
        broker.Connect();
        var before = Publish(queue, "before", Neighbours, CancellationToken.None);
        var call = Publish(queue, "call", messages, cancellation.Token);
        var after = Publish(queue, "after", Neighbours, CancellationToken.None);

        for (var step = 0; step < cancelledAt; step++)
            Step(broker);
        await cancellation.CancelAsync();
        while (Step(broker))
        {
        }

        foreach (var neighbour in new[] { before, after })
            Assert.True((await neighbour.WithinDeadline()).IsSuccess);
        var failure = await Record.ExceptionAsync(() => call.WithinDeadline());
        var isCancelled = failure is not null;
        Assert.True(failure is null or OperationCanceledException, $"{failure}");
        Assert.Equal(0, queue.GetStatistics().InFlightMessages);
        AssertArrived(broker, "before", Neighbours);
        AssertArrived(broker, "after", Neighbours);
        AssertArrived(broker, "call", isCancelled ? broker.Texts.Count(static text => text.StartsWith("call", StringComparison.Ordinal)) : messages);
        return isCancelled;
    }

    private static Task<MqttPublishReport> Publish(PublishQueue queue, string name, int messages, CancellationToken cancellationToken) =>
        queue.PublishManyAsync(Array.ConvertAll(Numbered(name, messages), static text => new MqttMessage("a", Some.Bytes(text))), cancellationToken).AsTask();

    /// <summary>Takes what is to be written, or acknowledges one message; false when there is neither.</summary>
    private static bool Step(SimulatedBroker broker)
    {
        if (broker.Take())
            return true;
        if (broker.Unacknowledged.Count == 0)
            return false;
        broker.Acknowledge();
        return true;
    }

    private static void AssertArrived(SimulatedBroker broker, string name, int messages) =>
        Assert.Equal(Numbered(name, messages), broker.Texts.Where(text => text.StartsWith(name, StringComparison.Ordinal)));

    private static string[] Numbered(string name, int messages) => [.. Enumerable.Range(1, messages).Select(number => $"{name} {number}")];
}

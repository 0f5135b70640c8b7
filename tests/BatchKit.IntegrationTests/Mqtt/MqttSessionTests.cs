using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using static BatchKit.IntegrationTests.Mqtt.MqttEnds;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>A clean start with a will, and frames of a newer version.</summary>
public sealed class MqttSessionTests(MosquittoFixture fixture)
{
    private readonly CollectingTransport _arrived = new();

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task A_clean_start_does_not_publish_the_will(MqttVersion version)
    {
        var server = await fixture.GetAsync();
        var topic = Some.Name("will");
        await using var receiver = await StartAsync(MqttSome.Below(server, topic), _arrived);
        var options = MqttSome.Options(server, options =>
        {
            options.Version = version;
            options.CleanStart = true;
            options.Will = new MqttWill(new MqttMessage($"{topic}/a", Some.Bytes("the will")));
        });

        await using (var transport = new MqttTransport(options))
            await transport.PublishManyAsync(new[] { new MqttMessage($"{topic}/a", Some.Bytes("the message")) }).WithinDeadline();
        await using (var again = new MqttTransport(options))
            await again.PublishManyAsync(new[] { new MqttMessage($"{topic}/a", Some.Bytes("the end")) }).WithinDeadline();
        await Until.TrueAsync(() => _arrived.Texts.Contains("the end"));

        Assert.Equal(["the message", "the end"], _arrived.Texts);
    }

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task Frames_of_a_newer_version_are_refused_counted_and_logged_once_and_those_around_them_arrive(MqttVersion version)
    {
        var options = MqttSome.Envelope(await fixture.GetAsync(), options => options.Version = version);
        using var log = new LogCollector();
        var batches = new BatchReceiver(_arrived);
        await using var receiver = new MqttReceiver(options, Node, batches, timeProvider: null, new Logger<MqttReceiver>(log));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await using var transport = new MqttTransport(MqttSome.Options(options.Server, options => options.Version = version));

        await transport.PublishManyAsync(Enumerable.Range(0, 100).Select(number => Message(number, isNewer: number is 50 or 51)).ToArray()).WithinDeadline();
        await _arrived.WaitForMessagesAsync(98);

        Assert.Equal(Some.Lines(100).Where(static (_, number) => number is not (50 or 51)), _arrived.Texts);
        Assert.Equal((98, 2), (receiver.GetStatistics().ReceivedFrames, receiver.GetStatistics().MalformedFrames));
        Assert.Contains("version 3", Assert.Single(log.Entries, static entry => entry.Id == 204).Text, StringComparison.Ordinal);
        Assert.Null(receiver.Fault);

        MqttMessage Message(int number, bool isNewer)
        {
            using var frame = PooledFrame.Encode([Some.Batch(Some.Connection(Node), Some.Producer(), 1, $"line {number}")]);
            var bytes = frame.Bytes.ToArray();

            // The version follows the three bytes that every frame begins with.
            bytes[3] += (byte)(isNewer ? 1 : 0);
            return new MqttMessage($"{options.EnvelopePrefix}/node/{Node}", bytes);
        }
    }
}

using BatchKit.IntegrationTests.MassTransit;
using BatchKit.IntegrationTests.Mqtt;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.Mqtt;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.Hostile;

/// <summary>Someone else may write to the broker, and knows a genuine producer.</summary>
public sealed class ForgedFrameTests(RabbitMqFixture rabbitMq, MosquittoFixture mosquitto)
{
    private const int Node = 1;
    private const int Genuine = 1000;

    private readonly CollectingTransport _arrived = new();
    private readonly OutputHandle _player = Some.Connection(Node);
    private readonly ProducerId _producer = Some.Producer();

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Over_RabbitMQ_a_forged_frame_is_rejected_and_drops_nothing_genuine(bool isSigned)
    {
        var options = RabbitMqSome.Options(await rabbitMq.GetAsync());
        var batches = new BatchReceiver(_arrived, ReceiverOptions(isSigned));
        await using var receiver = new RabbitMqReceiver(options, Node, batches);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await using var genuine = new RabbitMqTransport(options, signer: Signer(isSigned));
        await using var forger = new RabbitMqTransport(options);

        await AttackAsync(genuine, forger, _arrived, isSigned);

        Assert.Equal(1, batches.GetStatistics().RejectedFrames);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Over_MQTT_a_forged_frame_is_rejected_and_drops_nothing_genuine(bool isSigned)
    {
        var options = MqttSome.Envelope(await mosquitto.GetAsync());
        var batches = new BatchReceiver(_arrived, ReceiverOptions(isSigned));
        await using var receiver = new MqttReceiver(options, Node, batches);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        options.ClientId = Some.Name("genuine");
        await using var genuine = new MqttTransport(options, signer: Signer(isSigned));
        options.ClientId = Some.Name("forger");
        await using var forger = new MqttTransport(options);

        await AttackAsync(genuine, forger, _arrived, isSigned);

        Assert.Equal(1, batches.GetStatistics().RejectedFrames);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Over_MassTransit_a_forged_frame_is_rejected_and_drops_nothing_genuine(bool isSigned)
    {
        var (server, prefix) = (await rabbitMq.GetAsync(), Some.Name("mt"));
        await using var node = await MassTransitNode.StartReadyAsync(Node, MassTransitSome.Settings(server, prefix), configureOutput: options =>
        {
            if (isSigned)
                options.FrameKeys.Add(SignedFrames.Key);
        });
        await using var forger = await MassTransitNode.StartReadyAsync(Node + 1, MassTransitSome.Settings(server, prefix));

        await AttackAsync(node.Transport, forger.Transport, node.Received, isSigned);

        Assert.Equal(1, node.Receiver.GetStatistics().RejectedFrames);
    }

    [Fact]
    public async Task Over_RabbitMQ_a_frame_that_is_signed_for_another_node_is_rejected()
    {
        var server = await rabbitMq.GetAsync();
        var options = RabbitMqSome.Options(server);
        var batches = new BatchReceiver(_arrived, ReceiverOptions(isSigned: true));
        await using var receiver = new RabbitMqReceiver(options, Node, batches);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await using var thief = await RabbitMqProbe.ConnectAsync(server);

        foreach (var frame in Stolen)
            await thief.PublishAsync(options, "1", frame);

        await AssertRejectedAsync(batches.GetStatistics, _arrived);
    }

    [Fact]
    public async Task Over_MQTT_a_frame_that_is_signed_for_another_node_is_rejected()
    {
        var server = await mosquitto.GetAsync();
        var options = MqttSome.Envelope(server);
        var batches = new BatchReceiver(_arrived, ReceiverOptions(isSigned: true));
        await using var receiver = new MqttReceiver(options, Node, batches);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await using var thief = new MqttTransport(MqttSome.Options(server));

        await thief.PublishManyAsync(Array.ConvertAll(Stolen, frame => new MqttMessage($"{options.EnvelopePrefix}/node/{Node}", frame))).WithinDeadline();

        await AssertRejectedAsync(batches.GetStatistics, _arrived);
    }

    [Fact]
    public async Task Over_MassTransit_a_frame_that_is_signed_for_another_node_is_rejected()
    {
        var (server, prefix) = (await rabbitMq.GetAsync(), Some.Name("mt"));
        await using var node = await MassTransitNode.StartReadyAsync(Node, MassTransitSome.Settings(server, prefix), configureOutput: static options => options.FrameKeys.Add(SignedFrames.Key));
        await using var thief = await WireTap.ConnectAsync(server, prefix);

        foreach (var frame in Stolen)
            await thief.PublishAsync(node.Receiver.Queue, frame);

        await AssertRejectedAsync(node.Receiver.GetStatistics, node.Received);
    }

    /// <summary>The first frame was for another node, the others were for this one and for all.</summary>
    private static byte[][] Stolen => [SignedFrames.For(Node + 1, "other"), SignedFrames.For(Node, "own"), SignedFrames.ForAll("all")];

    private static async Task AssertRejectedAsync(Func<BatchReceiverStatistics> read, CollectingTransport arrived)
    {
        await arrived.WaitForMessagesAsync(2).WithinDeadline();
        Assert.Equal(["own", "all"], arrived.Texts);
        Assert.Equal(1, read().RejectedFrames);
    }

    private static FrameSigner? Signer(bool isSigned) => isSigned ? new FrameSigner(SignedFrames.Key) : null;

    private static BatchReceiverOptions ReceiverOptions(bool isSigned) => new() { Signer = Signer(isSigned), RetryDelay = TimeSpan.FromMilliseconds(1) };

    /// <summary>A forged frame comes between two genuine ones: with the highest number, or, where frames are signed, with the number that is next.</summary>
    private async Task AttackAsync(IBatchTransport genuine, IBatchTransport forger, CollectingTransport arrived, bool isSigned)
    {
        await genuine.SendAsync(new[] { Batch(1) }, CancellationToken.None).WithinDeadline();
        await forger.SendAsync(new[] { Batch(isSigned ? 2 : long.MaxValue) }, CancellationToken.None).WithinDeadline();
        await genuine.SendAsync(Enumerable.Range(2, Genuine).Select(number => Batch(number)).ToArray(), CancellationToken.None).WithinDeadline();
        await arrived.WaitForMessagesAsync(Genuine + 1);

        Assert.Equal(Enumerable.Range(1, Genuine + 1).Select(number => $"{number}"), arrived.Texts);
    }

    private MessageBatch Batch(long number) => Some.Batch(_player, _producer, number, $"{number}");
}

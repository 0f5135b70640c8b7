using System.Globalization;
using BatchKit.Transports;
using NATS.Client.Core;
using NATS.Client.JetStream;
using NATS.Client.JetStream.Models;

namespace BatchKit.Nats;

/// <summary>The names at the server, and what is created there: one stream for the frames of all nodes, so that its order holds across them, and one durable consumer for each node.</summary>
/// <remarks>
/// The stream deletes a frame when every node that gets it has acknowledged it. A consumer has one frame in hand: nothing overtakes a frame that is delivered again. A consumer that was just created gets only
/// newer frames, so that a node that never ran gets nothing old.
/// </remarks>
internal sealed class NatsTopology(NatsOptions options)
{
    /// <summary>How long the server waits for an acknowledgement, or for a sign that the frame is in progress, before it delivers the frame again.</summary>
    public static readonly TimeSpan AckWait = TimeSpan.FromSeconds(3);

    private const string FirstHeader = "BatchKit-First";

    private static readonly Version FiltersBySeveral = new(2, 10);

    private readonly string _all = $"{options.Prefix}.all";

    public string Stream => options.Prefix;

    public string Bucket => $"{options.Prefix}-nodes";

    public static string Consumer(int node) => string.Create(CultureInfo.InvariantCulture, $"node-{node}");

    public string Subject(FrameDestination destination) => destination.IsAll ? _all : Subject(destination.Node);

    /// <summary>The subjects of a node's frames: its own, and that of all nodes.</summary>
    public string[] Subjects(int node) => [Subject(node), _all];

    /// <summary>Whether the server sends a consumer the frames of several subjects, and no others.</summary>
    public static bool CanFilter(string? serverVersion) =>
        serverVersion is not null && Version.TryParse(serverVersion.Split('-')[0], out var version) && version >= FiltersBySeveral;

    /// <summary>Creates the stream, or brings its settings up to date.</summary>
    public async Task DeclareStreamAsync(INatsJSContext jetStream, CancellationToken cancellationToken)
    {
        if (!options.DeclareTopology)
            return;
        await jetStream.CreateOrUpdateStreamAsync(
            new StreamConfig(Stream, [$"{options.Prefix}.node.*", _all])
            {
                Retention = StreamConfigRetention.Interest,
                Discard = StreamConfigDiscard.New,
                MaxAge = options.MaxAge,
                MaxBytes = options.MaxStreamBytes,
                NumReplicas = options.Replicas,
            },
            cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Whether the stream's limits admit so many bytes now.</summary>
    public async Task<bool> HasCapacityAsync(INatsJSContext jetStream, int bytes, CancellationToken cancellationToken)
    {
        var info = (await jetStream.GetStreamAsync(Stream, cancellationToken: cancellationToken).ConfigureAwait(false)).Info;
        return (info.Config.MaxBytes <= 0 || info.State.Bytes + bytes <= info.Config.MaxBytes) && (info.Config.MaxMsgs <= 0 || info.State.Messages < info.Config.MaxMsgs);
    }

    /// <summary>Returns the node's consumer, created if need be.</summary>
    public async Task<INatsJSConsumer> GetConsumerAsync(INatsJSContext jetStream, int node, bool canFilter, CancellationToken cancellationToken)
    {
        if (!options.DeclareTopology)
            return await jetStream.GetConsumerAsync(Stream, Consumer(node), cancellationToken).ConfigureAwait(false);
        await DeclareStreamAsync(jetStream, cancellationToken).ConfigureAwait(false);
        var config = new ConsumerConfig(Consumer(node))
        {
            DeliverPolicy = ConsumerConfigDeliverPolicy.New,
            AckPolicy = ConsumerConfigAckPolicy.Explicit,
            AckWait = AckWait,
            MaxAckPending = 1,
            InactiveThreshold = options.MaxAge,
            FilterSubjects = canFilter ? Subjects(node) : null,
        };
        var consumer = await jetStream.CreateOrUpdateConsumerAsync(Stream, config, cancellationToken).ConfigureAwait(false);
        if (!canFilter && consumer.Info.AckFloor.StreamSeq == 0)
            await GreetAsync(jetStream, node, cancellationToken).ConfigureAwait(false);
        return consumer;
    }

    /// <summary>True for a message that is there to be acknowledged. When a server up to 2.9.15 starts, it deletes what waits for a consumer that has acknowledged nothing yet, up to what another one has (its <c>checkForOrphanMsgs</c>).</summary>
    public static bool IsFirst(NatsHeaders? headers) => headers?.ContainsKey(FirstHeader) == true;

    // Without an answer, because a receiver may lack the right to publish, and can receive all the same. What is sent once the receiver has started comes behind it.
    private async Task GreetAsync(INatsJSContext jetStream, int node, CancellationToken cancellationToken)
    {
        await jetStream.Connection.PublishAsync(Subject(node), Array.Empty<byte>(), new NatsHeaders { [FirstHeader] = "1" }, cancellationToken: cancellationToken).ConfigureAwait(false);
        await jetStream.Connection.PingAsync(cancellationToken).ConfigureAwait(false);
    }

    private string Subject(int node) => string.Create(CultureInfo.InvariantCulture, $"{options.Prefix}.node.{node}");
}

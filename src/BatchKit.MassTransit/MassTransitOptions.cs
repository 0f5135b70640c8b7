using System.ComponentModel.DataAnnotations;
using BatchKit.RabbitMQ;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Options;
using IBus = MassTransit.IBus;

namespace BatchKit.MassTransit;

/// <summary>Settings of a transport and receiver over a MassTransit bus. Their options name is the buffer's name. A value outside its range makes the start fail; the error names the setting.</summary>
/// <remarks>Sender and receiver must have the same <see cref="Prefix"/>. On RabbitMQ, either may use <c>BatchKit.RabbitMQ</c> instead.</remarks>
public sealed class MassTransitOptions : IValidatableObject
{
    /// <summary>The first part of the names of queues and exchanges; <c>batchkit</c> by default, 1 to 100 letters, digits, dots, hyphens and underscores. It does not begin with <c>amq.</c>, which RabbitMQ keeps for itself.</summary>
    /// <remarks>Buffers that share a broker but must not receive each other's output, such as a game's output and its input, need different prefixes.</remarks>
    [Required]
    [RegularExpression("[A-Za-z0-9_.-]{1,100}")]
    public string Prefix { get; set; } = "batchkit";

    /// <summary>
    /// The node that receives all output, whatever the handle. A gateway sends its players' input to the game this way, and the game still gets each player's
    /// handle. Null by default: output for a connection goes to its node, output for a named handle goes to all nodes.
    /// </summary>
    [Range(0, OutputHandle.MaxNode)]
    public int? DestinationNode { get; set; }

    /// <summary>
    /// True, the default, makes queues durable and messages persistent: confirmed messages survive a restart and a crash of the broker. False is faster, but
    /// the broker loses queues and messages when it stops. Before you change it, choose another <see cref="Prefix"/> or delete the old queues. The in-memory
    /// transport keeps nothing either way.
    /// </summary>
    public bool Durable { get; set; } = true;

    /// <summary>
    /// True: nodes' queues are quorum queues, which are stored on several brokers of a RabbitMQ cluster and still work when a minority of them has failed. False, the default: classic queues, which are faster and are
    /// stored on one broker.
    /// </summary>
    /// <remarks>
    /// All processes with the same <see cref="Prefix"/> must have the same value. A quorum queue needs <see cref="Durable"/>. The queue has the argument <c>x-delivery-limit</c>, because RabbitMQ 4
    /// otherwise drops a frame that it has delivered 20 times without an acknowledgement. RabbitMQ only.
    /// </remarks>
    public bool UseQuorumQueues { get; set; }

    /// <summary>
    /// How long a node's queue may be without a receiver before the broker deletes it with its messages; 5 min by default. Output for that node is then refused. Null keeps
    /// the queue without limit. RabbitMQ only.
    /// </summary>
    [TimeSpanRange("00:00:01", "30.00:00:00")]
    public TimeSpan? QueueExpiry { get; set; } = TimeSpan.FromMinutes(5);

    /// <summary>
    /// How many unacknowledged frames the broker may send ahead; 16 by default. A frame is usually a whole send, so more than a few dozen bring no gain and cost memory. With 1,
    /// each frame costs a round trip. On the in-memory transport it is the number of frames that may wait for the receiver.
    /// </summary>
    [Range(1, 1000)]
    public int Prefetch { get; set; } = 16;

    /// <summary>
    /// The largest frame in bytes; 8 MiB by default, and at least <see cref="FrameWriter.OverheadBytes"/> above <see cref="OutputBufferOptions.MaxBatchBytes"/>. A buffering scope's output is sent as one frame up to this size, and as several frames above it. A single message that
    /// needs a larger frame is refused when it is written. Where RabbitMQ's <c>max_message_size</c> is lower (16 MiB by default in RabbitMQ 4, 128 MiB before), the transport learns that from the first refusal.
    /// </summary>
    [Range(4096, 128 * 1024 * 1024)]
    public int MaxFrameBytes { get; set; } = 8 * 1024 * 1024;

    /// <summary>
    /// The time limit of a frame's confirm; 5 s by default. After that the send fails, and the buffer retries it. MassTransit itself has no limit and
    /// keeps trying until its token is cancelled.
    /// </summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan PublishTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// How long after connecting, or after a failed send, the transport retries output for a node that has no queue; 15 s by default. After this time it refuses such output at once.
    /// Receivers need the time to reconnect after a restart of the broker.
    /// </summary>
    [TimeSpanRange("00:00:00", "01:00:00")]
    public TimeSpan UnroutableGrace { get; set; } = TimeSpan.FromSeconds(15);

    /// <summary>
    /// How long a stopping receiver waits for its current frame; 5 s by default. After that it abandons the frame, and RabbitMQ delivers the whole frame to the node's next
    /// receiver.
    /// </summary>
    [TimeSpanRange("00:00:00", "01:00:00")]
    public TimeSpan StopTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>The RabbitMQ broker to connect to. Null, the default, uses MassTransit's in-memory transport, with sender and receiver in this process. In a section it must not be empty.</summary>
    [ValidateObjectMembers]
    [InnerOptions(typeof(MassTransitRabbitMqOptions))]
    public MassTransitRabbitMqOptions? RabbitMq { get; set; }

    /// <summary>
    /// Returns the bus to use, such as <c>services => services.GetRequiredService&lt;IBus&gt;()</c> for the application's own. The application
    /// configures, starts and stops it; <see cref="RabbitMq"/> must then be null. Null, the default, creates a bus for this buffer alone.
    /// </summary>
    public Func<IServiceProvider, IBus>? Bus { get; set; }

    /// <summary>Called when a connection opens, is lost, or opens again; null by default.</summary>
    /// <remarks>
    /// The receiver reports the connection of its endpoint. The transport reports a connection as its sends and the bus's receive endpoints find it. The calls of each keep their order and do not overlap, so
    /// return quickly. An exception from the callback stops nothing; the health check then reports degraded.
    /// </remarks>
    public Action<ConnectionChange>? ConnectionChanged { get; set; }

    /// <summary>
    /// True: the host does not start when the buffer's own bus can't connect to RabbitMQ within <see cref="MassTransitRabbitMqOptions.ConnectTimeout"/>. False, the default: the host starts, and the bus keeps trying.
    /// The host never waits for the application's bus.
    /// </summary>
    public bool FailFast { get; set; }

    /// <summary>
    /// How often the receiver checks on RabbitMQ that the exchanges and bindings exist, and declares deleted ones again; 5 s by default. One that has other arguments
    /// becomes its <see cref="MassTransitReceiver.Fault"/>, and so does a check that the broker does not answer. When frames wait at two checks and none came in between although the receiver was receiving none, its endpoint starts again.
    /// Not used on other buses.
    /// </summary>
    [TimeSpanRange("00:00:00.100", "01:00:00")]
    public TimeSpan TopologyCheckInterval { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>Reads the settings that a section has.</summary>
    internal static void Read(IConfiguration section, MassTransitOptions options)
    {
        section.Bind(new MassTransitSection(options));
        if (SectionReader.FindInner(section, nameof(RabbitMq)) is not { } rabbitMq)
            return;
        // The in-memory bus would lose what is meant for the broker.
        if (!rabbitMq.GetChildren().Any())
            throw new FormatException($"'{rabbitMq.Path}' is empty. Set its {nameof(MassTransitRabbitMqOptions.Hosts)}, or leave it out for the in-memory bus.");
        MassTransitRabbitMqOptions.Read(rabbitMq, options.RabbitMq ??= new MassTransitRabbitMqOptions());
    }

    /// <summary>Returns a copy that later changes do not affect.</summary>
    internal MassTransitOptions Copy()
    {
        var copy = (MassTransitOptions)MemberwiseClone();
        copy.RabbitMq = RabbitMq?.Copy();
        return copy;
    }

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (Prefix is not null && RabbitMqNames.FindFaultInPrefix(Prefix) is { } prefixFault)
            yield return new ValidationResult($"{nameof(Prefix)} {prefixFault}", [nameof(Prefix)]);
        if (UseQuorumQueues && !Durable)
            yield return new ValidationResult($"{nameof(UseQuorumQueues)} is true and {nameof(Durable)} is false. A quorum queue is durable: set {nameof(Durable)} to true, or {nameof(UseQuorumQueues)} to false.", [nameof(UseQuorumQueues)]);
        if (Bus is not null && RabbitMq is not null)
        {
            yield return new ValidationResult(
                $"{nameof(Bus)} and {nameof(RabbitMq)} are both set. Leave {nameof(RabbitMq)} null, because the application's bus has its own connection, or leave {nameof(Bus)} null.", [nameof(Bus), nameof(RabbitMq)]);
        }
    }
}

/// <summary>The settings that a section can have, besides the connection to RabbitMQ. Binding is generated for these alone, because it can't be generated for a callback.</summary>
internal sealed class MassTransitSection
{
    private readonly MassTransitOptions _options;

    public MassTransitSection() : this(new()) { }

    internal MassTransitSection(MassTransitOptions options) => _options = options;

    public bool FailFast { get => _options.FailFast; set => _options.FailFast = value; }
    public string Prefix { get => _options.Prefix; set => _options.Prefix = value; }
    public int? DestinationNode { get => _options.DestinationNode; set => _options.DestinationNode = value; }
    public bool Durable { get => _options.Durable; set => _options.Durable = value; }
    public bool UseQuorumQueues { get => _options.UseQuorumQueues; set => _options.UseQuorumQueues = value; }
    public TimeSpan? QueueExpiry { get => _options.QueueExpiry; set => _options.QueueExpiry = value; }
    public int Prefetch { get => _options.Prefetch; set => _options.Prefetch = value; }
    public int MaxFrameBytes { get => _options.MaxFrameBytes; set => _options.MaxFrameBytes = value; }
    public TimeSpan PublishTimeout { get => _options.PublishTimeout; set => _options.PublishTimeout = value; }
    public TimeSpan UnroutableGrace { get => _options.UnroutableGrace; set => _options.UnroutableGrace = value; }
    public TimeSpan StopTimeout { get => _options.StopTimeout; set => _options.StopTimeout = value; }
    public TimeSpan TopologyCheckInterval { get => _options.TopologyCheckInterval; set => _options.TopologyCheckInterval = value; }
}

/// <summary>Checks the options' attributes, in generated code.</summary>
[OptionsValidator]
internal sealed partial class MassTransitOptionsValidator : IValidateOptions<MassTransitOptions>;

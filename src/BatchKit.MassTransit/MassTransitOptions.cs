using System.ComponentModel.DataAnnotations;
using Microsoft.Extensions.Options;
using IBus = MassTransit.IBus;

namespace BatchKit.MassTransit;

/// <summary>Settings of the way over a MassTransit bus. Named like the buffer that they belong to; a value outside its range stops the start and names the setting.</summary>
/// <remarks>Both ends must agree on <see cref="Prefix"/> and, on RabbitMQ, on <see cref="Durable"/>.</remarks>
public sealed class MassTransitOptions : IValidatableObject
{
    /// <summary>What the names of queues and exchanges begin with; <c>batchkit</c> by default. Give each flow (output, input) its own.</summary>
    [Required]
    [RegularExpression("[A-Za-z0-9_.-]{1,100}")]
    public string Prefix { get; set; } = "batchkit";

    /// <summary>
    /// When set, every batch goes to this node's queue, whatever its handle: a gateway sends its players' input to the game so, and the game
    /// still sees whose it is. None by default, which sends a connection's output to its node and a named destination's to all.
    /// </summary>
    [Range(0, OutputHandle.MaxNode)]
    public int? DestinationNode { get; set; }

    /// <summary>
    /// True, the default, for durable queues and exchanges and persistent messages: what the broker confirmed survives its restart, and its crash.
    /// False for transient ones: faster, and what the broker holds when it stops is lost, the queues too. Changing it needs a new
    /// <see cref="Prefix"/>, or the old queues and exchanges deleted. The in-memory transport keeps nothing either way.
    /// </summary>
    public bool Durable { get; set; } = true;

    /// <summary>
    /// How long a node's queue outlives its receiver, 5 min by default; after that output for the node is refused. Null keeps it for ever.
    /// RabbitMQ only.
    /// </summary>
    [TimeSpanRange("00:00:01", "30.00:00:00")]
    public TimeSpan? QueueExpiry { get; set; } = TimeSpan.FromMinutes(5);

    /// <summary>
    /// How many frames the broker hands over before the first is acknowledged; 16 by default. A frame is a whole send, so more than a few dozen
    /// gain nothing and hold memory; 1 costs a round trip a frame. On the in-memory transport: how many frames may wait for the receiver.
    /// </summary>
    [Range(1, 1000)]
    public int Prefetch { get; set; } = 16;

    /// <summary>
    /// True, the default, to declare queues and exchanges. False takes them as given, for a broker where the user may not configure:
    /// direct exchange <c>{prefix}.direct</c>, fan-out exchange <c>{prefix}.fanout</c>, and for each node a queue <c>{prefix}.node.{node}</c> bound
    /// to both, to the direct one by the node's number. RabbitMQ only; an application's own bus always declares.
    /// </summary>
    public bool DeclareTopology { get; set; } = true;

    /// <summary>
    /// The largest frame in bytes; 1 MiB by default. A buffering scope leaves as one frame up to this size, and as several beyond it. A single message that
    /// needs a larger frame is refused when it is written. Not above the broker's <c>max_message_size</c>: 16 MiB by default in RabbitMQ 4, 128 MiB before.
    /// </summary>
    [Range(4096, 128 * 1024 * 1024)]
    public int MaxFrameBytes { get; set; } = 1024 * 1024;

    /// <summary>
    /// The longest one frame may take to be confirmed, 5 s by default; then the send fails and its buffer sends it again. MassTransit itself
    /// would try until its token is cancelled.
    /// </summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan PublishTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// How long after connecting, or after a failed send, output for a node without a queue is kept and sent again, because after a broker's restart
    /// receivers come back at the same time; 15 s by default. From then on such output is refused at once.
    /// </summary>
    [TimeSpanRange("00:00:00", "01:00:00")]
    public TimeSpan UnroutableGrace { get; set; } = TimeSpan.FromSeconds(15);

    /// <summary>
    /// The longest that a stopping receiver waits for the frame in hand; 5 s by default. Then the frame is abandoned, and RabbitMQ gives it to the
    /// node's next receiver, whole.
    /// </summary>
    [TimeSpanRange("00:00:00", "01:00:00")]
    public TimeSpan StopTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>The RabbitMQ to connect to. None by default, which uses MassTransit's in-memory transport: both ends in this process.</summary>
    [ValidateObjectMembers]
    public MassTransitRabbitMqOptions? RabbitMq { get; set; }

    /// <summary>
    /// Finds the bus to use, such as <c>services => services.GetRequiredService&lt;IBus&gt;()</c> for an application's own. The application
    /// configures, starts and stops it; <see cref="RabbitMq"/> must then be null. None by default, which makes a bus for this buffer alone.
    /// </summary>
    public Func<IServiceProvider, IBus>? Bus { get; set; }

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (Bus is not null && RabbitMq is not null)
        {
            yield return new ValidationResult(
                $"{nameof(Bus)} and {nameof(RabbitMq)} are both set; a bus of the application's brings its own connection.", [nameof(Bus), nameof(RabbitMq)]);
        }
    }
}

/// <summary>Checks the options by their attributes, in generated code.</summary>
[OptionsValidator]
internal sealed partial class MassTransitOptionsValidator : IValidateOptions<MassTransitOptions>
{
    private static readonly MassTransitOptionsValidator Shared = new();

    public static void ThrowIfInvalid(MassTransitOptions options)
    {
        var result = Shared.Validate(Options.DefaultName, options);
        if (result.Failed)
            throw new OptionsValidationException(Options.DefaultName, typeof(MassTransitOptions), result.Failures);
    }
}

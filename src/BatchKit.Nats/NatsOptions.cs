using System.ComponentModel.DataAnnotations;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Options;
using NATS.Client.Core;

namespace BatchKit.Nats;

/// <summary>What NATS keeps of a frame.</summary>
public enum NatsDelivery
{
    /// <summary>A JetStream stores each frame until its receivers have handed it on: at least once, in order, and what is sent while a receiver is away waits for it.</summary>
    AtLeastOnce = 0,

    /// <summary>Core NATS stores nothing: a frame reaches the receivers that are connected at that moment, at most once, in order.</summary>
    AtMostOnce = 1,
}

/// <summary>The settings of a <see cref="NatsTransport"/> and a <see cref="NatsReceiver"/>. They are read once, when these are created.</summary>
public sealed class NatsOptions : IValidatableObject
{
    private static readonly TimeSpan LeastMaxAge = TimeSpan.FromSeconds(10);
    private static readonly TimeSpan LongestMaxAge = TimeSpan.FromDays(30);

    /// <summary>The servers, as NATS.Net writes them: <c>nats://nats.example:4222</c>, several behind commas. Null by default.</summary>
    /// <remarks>When it is null, the <see cref="INatsConnection"/> of the services is used, and never closed; without one, <c>nats://localhost:4222</c>.</remarks>
    public string? Url { get; set; }

    /// <summary>The first part of all names at the server; <c>batchkit</c> by default. Letters, digits, <c>_</c> and <c>-</c>.</summary>
    /// <remarks>All processes that exchange output have the same. The subjects are <c>batchkit.node.42</c> for node 42 and <c>batchkit.all</c> for all nodes; the stream is <c>batchkit</c>, and the key-value bucket of the nodes' numbers <c>batchkit-nodes</c>.</remarks>
    [Required]
    [RegularExpression("[A-Za-z0-9_-]{1,60}", ErrorMessage = "The prefix has 1 to 60 letters, digits, and the characters '_' and '-'.")]
    public string Prefix { get; set; } = "batchkit";

    /// <summary>What the server keeps; <see cref="NatsDelivery.AtLeastOnce"/> by default. Senders and receivers have the same.</summary>
    [EnumDataType(typeof(NatsDelivery), ErrorMessage = "{0} must be AtLeastOnce or AtMostOnce.")]
    public NatsDelivery Delivery { get; set; }

    /// <summary>The node that all output goes to, such as the game behind a gateway; none by default: a connection's output goes to its node, and a named handle's to all nodes.</summary>
    [Range(0, OutputHandle.MaxNode)]
    public int? DestinationNode { get; set; }

    /// <summary>The most bytes in a frame, which is one message of NATS; 1 MiB by default, which is the server's default <c>max_payload</c>; from 4,096 bytes to 64 MiB. A host does not start when the server takes less.</summary>
    [Range(4096, 64 * 1024 * 1024)]
    public int MaxFrameBytes { get; set; } = 1024 * 1024;

    /// <summary>How long the stream keeps a frame for a node that does not take it, and a consumer that is unused, or whose frame is held; 1 hour by default, from 10 seconds to 30 days.</summary>
    public TimeSpan MaxAge { get; set; } = TimeSpan.FromHours(1);

    /// <summary>The most bytes that wait in the stream; 1 GiB by default, from 1 MiB to 1 TiB. A send to a full stream fails, and is repeated like any other.</summary>
    [Range(1024 * 1024, 1L << 40)]
    public long MaxStreamBytes { get; set; } = 1024L * 1024 * 1024;

    /// <summary>How many servers of a cluster store the stream; 1 by default, up to 5.</summary>
    [Range(1, 5)]
    public int Replicas { get; set; } = 1;

    /// <summary>Whether the stream, the node's consumer and the bucket are created and kept up to date; true by default. When it is false they must exist, the user needs no right to create them, and no number is leased: set <see cref="OutputBufferOptions.Node"/>.</summary>
    public bool DeclareTopology { get; set; } = true;

    /// <summary>Whether a receiver whose fixed number is held by another process waits for it, as a stand-by does; false by default: then its host does not start.</summary>
    public bool WaitsForNode { get; set; }

    /// <summary>How long a stop waits for the frame in hand; 5 seconds by default, up to 5 minutes. After that the server delivers the frame again.</summary>
    public TimeSpan StopTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>The most frames that wait for the next hop with <see cref="NatsDelivery.AtMostOnce"/>; 10,000 by default, from 1 to 1,000,000. Beyond it, or beyond 64 MiB of frames, the newest is dropped, counted and logged.</summary>
    [Range(1, 1_000_000)]
    public int MaxWaitingFrames { get; set; } = 10_000;

    /// <summary>Changes the settings of a connection of BatchKit's own, for example its credentials and certificates; null by default.</summary>
    public Func<NatsOpts, NatsOpts>? ConfigureConnection { get; set; }

    /// <summary>Called when the connection is open, is lost, or is restored; null by default. Calls keep their order and do not overlap. An exception from the callback is counted and stops nothing.</summary>
    public Action<ConnectionChange>? ConnectionChanged { get; set; }

    /// <summary>Reads a section of the configuration. The callbacks can't be in one.</summary>
    internal static void Read(IConfiguration section, NatsOptions options) => section.Bind(new NatsSection(options));

    internal NatsOptions Copy() => (NatsOptions)MemberwiseClone();

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (MaxAge < LeastMaxAge || MaxAge > LongestMaxAge)
            yield return new ValidationResult($"MaxAge must be from {LeastMaxAge} to {LongestMaxAge}.", [nameof(MaxAge)]);
        if (StopTimeout <= TimeSpan.Zero || StopTimeout > TimeSpan.FromMinutes(5))
            yield return new ValidationResult("StopTimeout must be above 0 and at most 5 minutes.", [nameof(StopTimeout)]);
        // The value may have a password, so that no error repeats it.
        if (Url is not null && !Array.TrueForAll(Url.Split(',', StringSplitOptions.TrimEntries), IsAddress))
            yield return new ValidationResult("Url must be nats://host:port, or several behind commas; tls://, ws:// and wss:// are allowed too.", [nameof(Url)]);
    }

    private static bool IsAddress(string part) =>
        Uri.TryCreate(part.Contains("://", StringComparison.Ordinal) ? part : $"nats://{part}", UriKind.Absolute, out var uri)
        && uri.Host.Length > 0 && uri.Scheme is "nats" or "tls" or "ws" or "wss";
}

/// <summary>The settings that a section of the configuration may have.</summary>
internal sealed class NatsSection
{
    private readonly NatsOptions _options;

    public NatsSection() : this(new()) { }

    internal NatsSection(NatsOptions options) => _options = options;

    public string? Url { get => _options.Url; set => _options.Url = value; }
    public string Prefix { get => _options.Prefix; set => _options.Prefix = value; }
    public NatsDelivery Delivery { get => _options.Delivery; set => _options.Delivery = value; }
    public int? DestinationNode { get => _options.DestinationNode; set => _options.DestinationNode = value; }
    public int MaxFrameBytes { get => _options.MaxFrameBytes; set => _options.MaxFrameBytes = value; }
    public TimeSpan MaxAge { get => _options.MaxAge; set => _options.MaxAge = value; }
    public long MaxStreamBytes { get => _options.MaxStreamBytes; set => _options.MaxStreamBytes = value; }
    public int Replicas { get => _options.Replicas; set => _options.Replicas = value; }
    public bool DeclareTopology { get => _options.DeclareTopology; set => _options.DeclareTopology = value; }
    public bool WaitsForNode { get => _options.WaitsForNode; set => _options.WaitsForNode = value; }
    public TimeSpan StopTimeout { get => _options.StopTimeout; set => _options.StopTimeout = value; }
    public int MaxWaitingFrames { get => _options.MaxWaitingFrames; set => _options.MaxWaitingFrames = value; }
}

/// <summary>Checks the options, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class NatsOptionsValidator : IValidateOptions<NatsOptions>;

using System.ComponentModel.DataAnnotations;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Options;
using StackExchange.Redis;

namespace BatchKit.Redis;

/// <summary>The settings of a <see cref="RedisTransport"/> and a <see cref="RedisReceiver"/>. They are read once, when these are created.</summary>
public sealed class RedisOptions : IValidatableObject
{
    /// <summary>The server, as StackExchange.Redis writes it: <c>redis.example:6379,password=…,ssl=true</c>. Null by default.</summary>
    /// <remarks>When it is null, the <see cref="IConnectionMultiplexer"/> of the services is used, and never closed; without one, <c>localhost</c>. A connection of BatchKit's own does not fail when the server is down: it connects when the server is there.</remarks>
    public string? Configuration { get; set; }

    /// <summary>The first part of all channels' names; <c>batchkit</c> by default. Letters, digits, and the characters <c>. _ : -</c>.</summary>
    /// <remarks>All servers that exchange output have the same. The channels are <c>batchkit:00042</c> for node 42, and <c>batchkit:xxxxx</c> for all nodes.</remarks>
    [Required]
    [RegularExpression("[A-Za-z0-9._:-]{1,100}", ErrorMessage = "The prefix has 1 to 100 letters, digits, and the characters '.', '_', ':' and '-'.")]
    public string Prefix { get; set; } = "batchkit";

    /// <summary>The node that all output goes to, such as the game behind a gateway; none by default: a connection's output goes to its node, and a named handle's to all nodes.</summary>
    [Range(0, OutputHandle.MaxNode)]
    public int? DestinationNode { get; set; }

    /// <summary>The most bytes in a frame, which is one PUBLISH; 1 MiB by default, from 4,096 bytes to 128 MiB, the largest that a receiver takes.</summary>
    [Range(4096, 128 * 1024 * 1024)]
    public int MaxFrameBytes { get; set; } = 1024 * 1024;

    /// <summary>The most received frames that may wait for the next hop; 10,000 by default, from 1 to 1,000,000. Beyond it, or beyond 64 MiB of frames, the oldest is dropped, counted and logged.</summary>
    [Range(1, 1_000_000)]
    public int MaxWaitingFrames { get; set; } = 10_000;

    /// <summary>Changes the settings of a connection of BatchKit's own, for example its certificates; null by default.</summary>
    public Action<ConfigurationOptions>? ConfigureConnection { get; set; }

    /// <summary>Called when the connection is open, is lost, or is restored; null by default. Calls keep their order and do not overlap. An exception from the callback is counted and stops nothing.</summary>
    public Action<ConnectionChange>? ConnectionChanged { get; set; }

    /// <summary>Reads a section of the configuration. The callbacks can't be in one.</summary>
    internal static void Read(IConfiguration section, RedisOptions options) => section.Bind(new RedisSection(options));

    internal RedisOptions Copy() => (RedisOptions)MemberwiseClone();

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (Configuration is not null && !TryParse(Configuration))
            yield return new ValidationResult("Configuration is not in the form of StackExchange.Redis: write host:port, and settings as name=value behind commas.", [nameof(Configuration)]);
    }

    // The value may have a password, so that no error repeats it.
    private static bool TryParse(string configuration)
    {
        try
        {
            return ConfigurationOptions.Parse(configuration).EndPoints.Count > 0;
        }
        catch (ArgumentException)
        {
            return false;
        }
    }
}

/// <summary>The settings that a section of the configuration may have.</summary>
internal sealed class RedisSection
{
    private readonly RedisOptions _options;

    public RedisSection() : this(new()) { }

    internal RedisSection(RedisOptions options) => _options = options;

    public string? Configuration { get => _options.Configuration; set => _options.Configuration = value; }
    public string Prefix { get => _options.Prefix; set => _options.Prefix = value; }
    public int? DestinationNode { get => _options.DestinationNode; set => _options.DestinationNode = value; }
    public int MaxFrameBytes { get => _options.MaxFrameBytes; set => _options.MaxFrameBytes = value; }
    public int MaxWaitingFrames { get => _options.MaxWaitingFrames; set => _options.MaxWaitingFrames = value; }
}

/// <summary>Checks the options, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class RedisOptionsValidator : IValidateOptions<RedisOptions>;

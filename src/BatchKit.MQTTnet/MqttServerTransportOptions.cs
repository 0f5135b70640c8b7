using System.ComponentModel.DataAnnotations;
using MQTTnet.Protocol;
using Microsoft.Extensions.Options;

namespace BatchKit.MQTTnet;

/// <summary>Settings of a <see cref="MqttServerTransport"/>. Read once, when it is made; a value outside its range stops the start and names the setting.</summary>
public sealed class MqttServerTransportOptions : IValidatableObject
{
    /// <summary>
    /// What the server's own <c>MqttServerOptions.MaxPendingMessagesPerClient</c> is, which it does not tell; 1000 by default, as there. A higher value here than there loses messages; a lower one
    /// waits earlier. The transport fills three quarters of it and leaves the rest to the server's other publishers.
    /// </summary>
    [Range(4, 10_000_000)]
    public int MaxPendingMessagesPerClient { get; set; } = 1000;

    /// <summary>
    /// The longest that a send waits for one connected subscriber whose queue is full; 1 s by default. Then the subscriber is not waited for until it has read half of its queue: the
    /// server drops what it has no room for, which <see cref="MqttServerTransportStatistics.DroppedMessages"/> counts. Keep it well below <see cref="OutputBufferOptions.SendTimeout"/>.
    /// </summary>
    [TimeSpanRange("00:00:00.010", "00:05:00")]
    public TimeSpan SlowSubscriberTimeout { get; set; } = TimeSpan.FromSeconds(1);

    /// <summary>Who the server's events say has sent the messages; <c>batchkit</c> by default.</summary>
    [Required]
    [StringLength(1000, MinimumLength = 1)]
    public string SenderClientId { get; set; } = "batchkit";

    /// <summary>QoS 0 or 1, the most that subscribers get; 1 by default.</summary>
    [EnumDataType(typeof(MqttQualityOfServiceLevel))]
    public MqttQualityOfServiceLevel QualityOfService { get; set; } = MqttQualityOfServiceLevel.AtLeastOnce;

    /// <summary>Whether the server keeps the last message of each topic for later subscribers; false by default.</summary>
    public bool Retain { get; set; }

    /// <summary>After how long the server may drop a retained message, in whole seconds; null by default, which is never.</summary>
    [TimeSpanRange("00:00:01", "24855.00:00:00")]
    public TimeSpan? Expiry { get; set; }

    /// <summary>True lets topics begin with <c>$SYS</c>; false by default.</summary>
    public bool AllowSystemTopics { get; set; }

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (QualityOfService == MqttQualityOfServiceLevel.ExactlyOnce)
            yield return new ValidationResult("QoS 2 is not supported: use QoS 1.", [nameof(QualityOfService)]);
    }
}

/// <summary>Checks the options by their attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class MqttServerTransportOptionsValidator : IValidateOptions<MqttServerTransportOptions>
{
    private static readonly MqttServerTransportOptionsValidator Shared = new();

    public static void ThrowIfInvalid(MqttServerTransportOptions options)
    {
        var result = Shared.Validate(Options.DefaultName, options);
        if (result.Failed)
            throw new OptionsValidationException(Options.DefaultName, typeof(MqttServerTransportOptions), result.Failures);
    }
}

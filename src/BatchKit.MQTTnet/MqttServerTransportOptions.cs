using System.ComponentModel.DataAnnotations;
using Microsoft.Extensions.Options;
using MQTTnet.Protocol;

namespace BatchKit.MQTTnet;

/// <summary>
/// Settings of a <see cref="MqttServerTransport"/>. They are read when the transport is created; later changes have no effect. A value outside its range makes the start fail; the error names
/// the setting.
/// </summary>
public sealed class MqttServerTransportOptions : IValidatableObject
{
    /// <summary>
    /// The server's <c>MqttServerOptions.MaxPendingMessagesPerClient</c>, which the transport can't read from the server; 1000 by default, as on the server. With a higher value than the
    /// server's, messages are lost; with a lower one, sends wait earlier. The transport uses three quarters of the queue and leaves the rest to other publishers.
    /// </summary>
    [Range(4, 10_000_000)]
    public int MaxPendingMessagesPerClient { get; set; } = 1000;

    /// <summary>
    /// How long a send waits for connected subscribers whose queues are full, for all of them at the same time; 1 s by default. After that, sends do not wait for such
    /// a subscriber until it has read half of its queue. The server drops messages that exceed the queue, and <see cref="MqttServerTransportStatistics.DroppedMessages"/> counts them. Keep the time well
    /// below <see cref="OutputBufferOptions.SendTimeout"/>.
    /// </summary>
    [TimeSpanRange("00:00:00.010", "00:05:00")]
    public TimeSpan SlowSubscriberTimeout { get; set; } = TimeSpan.FromSeconds(1);

    /// <summary>The client id that the server's events name as the sender of the messages; <c>batchkit</c> by default.</summary>
    [Required]
    [StringLength(1000, MinimumLength = 1)]
    public string SenderClientId { get; set; } = "batchkit";

    /// <summary>The maximum QoS with which subscribers get the messages, 0 or 1; 1 by default.</summary>
    [EnumDataType(typeof(MqttQualityOfServiceLevel))]
    public MqttQualityOfServiceLevel QualityOfService { get; set; } = MqttQualityOfServiceLevel.AtLeastOnce;

    /// <summary>Whether the server keeps the last message of each topic for later subscribers; false by default.</summary>
    public bool Retain { get; set; }

    /// <summary>The time after which the server may drop a retained message, in whole seconds; null, the default, means never.</summary>
    [TimeSpanRange("00:00:01", "24855.00:00:00")]
    public TimeSpan? Expiry { get; set; }

    /// <summary>True allows the topic <c>$SYS</c> and those below it; false by default.</summary>
    public bool AllowSystemTopics { get; set; }

    /// <summary>Returns a copy that later changes do not affect.</summary>
    internal MqttServerTransportOptions Copy() => (MqttServerTransportOptions)MemberwiseClone();

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (QualityOfService == MqttQualityOfServiceLevel.ExactlyOnce)
            yield return new ValidationResult("QoS 2 is not supported: use QoS 1.", [nameof(QualityOfService)]);
    }
}

/// <summary>Checks the options' attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class MqttServerTransportOptionsValidator : IValidateOptions<MqttServerTransportOptions>;

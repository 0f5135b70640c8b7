using System.ComponentModel.DataAnnotations;
using MQTTnet.Protocol;
using Microsoft.Extensions.Options;

namespace BatchKit.MQTTnet;

/// <summary>Settings of a <see cref="MqttClientTransport"/>. Read once, when it is made; a value outside its range stops the start and names the setting.</summary>
public sealed class MqttClientTransportOptions : IValidatableObject
{
    /// <summary>
    /// The most publishes that may be under way at once, over all sends; 1000 by default. MQTTnet numbers its packets from 1 to 65,535 and does not look whether a number is in use,
    /// so this stays far below. A broker's Receive Maximum (MQTT 5, section 3.2.2.3.3) holds where it is lower, which MQTTnet by itself does not see to.
    /// </summary>
    [Range(1, 20_000)]
    public int PublishWindow { get; set; } = 1000;

    /// <summary>
    /// The broker's Receive Maximum, for a client that has connected before the transport is made; null by default. Later connects say it themselves.
    /// </summary>
    [Range(1, ushort.MaxValue)]
    public int? ReceiveMaximum { get; set; }

    /// <summary>QoS 0 or 1; 1 by default. QoS 2 is refused: a send that is made again publishes again, so it would promise what it can't keep.</summary>
    [EnumDataType(typeof(MqttQualityOfServiceLevel))]
    public MqttQualityOfServiceLevel QualityOfService { get; set; } = MqttQualityOfServiceLevel.AtLeastOnce;

    /// <summary>Whether the broker keeps the last message of each topic for later subscribers; false by default.</summary>
    public bool Retain { get; set; }

    /// <summary>After how long the broker may drop a message that waits for a subscriber, in whole seconds; null by default, which is never. MQTT 5 only.</summary>
    [TimeSpanRange("00:00:01", "24855.00:00:00")]
    public TimeSpan? Expiry { get; set; }

    /// <summary>True lets topics begin with <c>$SYS</c>, which are the broker's own; false by default.</summary>
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
internal sealed partial class MqttClientTransportOptionsValidator : IValidateOptions<MqttClientTransportOptions>
{
    private static readonly MqttClientTransportOptionsValidator Shared = new();

    public static void ThrowIfInvalid(MqttClientTransportOptions options)
    {
        var result = Shared.Validate(Options.DefaultName, options);
        if (result.Failed)
            throw new OptionsValidationException(Options.DefaultName, typeof(MqttClientTransportOptions), result.Failures);
    }
}

using System.ComponentModel.DataAnnotations;
using BatchKit.Transports;
using Microsoft.Extensions.Options;
using MQTTnet.Protocol;

namespace BatchKit.MQTTnet;

/// <summary>
/// Settings of a <see cref="MqttClientTransport"/>. They are read when the transport is created; later changes have no effect. A value outside its range makes the start fail; the error names
/// the setting.
/// </summary>
public sealed class MqttClientTransportOptions : IValidatableObject
{
    /// <summary>
    /// The maximum number of unacknowledged publishes, over all sends; 1000 by default. It can be at most 20,000, because MQTTnet numbers its packets from 1 to 65,535 and does not check
    /// whether a number is in use. The broker's Receive Maximum (MQTT 5, section 3.2.2.3.3), which MQTTnet does not enforce, applies if it is lower.
    /// </summary>
    [Range(1, 20_000)]
    public int PublishWindow { get; set; } = 1000;

    /// <summary>
    /// The broker's Receive Maximum, for a client that has connected before the transport is created; null by default. The transport learns it from later connects.
    /// </summary>
    [Range(1, ushort.MaxValue)]
    public int? ReceiveMaximum { get; set; }

    /// <summary>QoS 0 or 1; 1 by default. QoS 2 is refused: a retried send publishes its messages again, so it can't promise exactly once.</summary>
    [EnumDataType(typeof(MqttQualityOfServiceLevel))]
    public MqttQualityOfServiceLevel QualityOfService { get; set; } = MqttQualityOfServiceLevel.AtLeastOnce;

    /// <summary>Whether the broker keeps the last message of each topic for later subscribers; false by default.</summary>
    public bool Retain { get; set; }

    /// <summary>The time after which the broker may drop a message that waits for a subscriber, in whole seconds; null, the default, means never. MQTT 5 only.</summary>
    [TimeSpanRange("00:00:01", "24855.00:00:00")]
    public TimeSpan? Expiry { get; set; }

    /// <summary>True allows the topic <c>$SYS</c> and those below it, which are reserved for the broker; false by default.</summary>
    public bool AllowSystemTopics { get; set; }

    /// <summary>Called when the application's client connects, loses its connection, or connects again; null by default. The end of a connection that the application itself disconnects is not reported.</summary>
    /// <remarks>
    /// MQTTnet does not tell such an end from a broker that closes without a DISCONNECT, as one that is killed does: either is reported as lost when something is sent before the application has connected again.
    /// A client that is connected when the transport is created is reported as connected then. Calls keep their order and do not overlap. They run in the client's own events, so return quickly. An exception from
    /// the callback is logged and stops nothing. Neither MQTTnet nor BatchKit reconnects the client, so the application must.
    /// </remarks>
    public Action<ConnectionChange>? ConnectionChanged { get; set; }

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (QualityOfService == MqttQualityOfServiceLevel.ExactlyOnce)
            yield return new ValidationResult("QoS 2 is not supported: use QoS 1.", [nameof(QualityOfService)]);
    }
}

/// <summary>Checks the options' attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class MqttClientTransportOptionsValidator : IValidateOptions<MqttClientTransportOptions>;

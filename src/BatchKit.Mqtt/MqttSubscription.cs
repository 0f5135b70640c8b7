using System.ComponentModel.DataAnnotations;

namespace BatchKit.Mqtt;

/// <summary>What a receiver subscribes to.</summary>
public sealed class MqttSubscription
{
    /// <summary>The topic filter; <c>$share/group/filter</c> shares its messages out among the group's receivers (MQTT 5, section 4.8.2).</summary>
    [Required]
    public string Filter { get; set; } = "";

    /// <summary>The most QoS to receive with, 0 or 1; 1 by default.</summary>
    [EnumDataType(typeof(MqttQualityOfService))]
    public MqttQualityOfService QualityOfService { get; set; } = MqttQualityOfService.AtLeastOnce;
}

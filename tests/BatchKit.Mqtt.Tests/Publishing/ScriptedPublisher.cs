namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>Keeps what it is given and answers as told.</summary>
internal sealed class ScriptedPublisher(params MqttPublishResult[] results) : IMqttPublisher
{
    public List<(string Topic, byte[] Payload, MqttQualityOfService? QualityOfService, bool? Retain, TimeSpan? Expiry)> Published { get; } = [];

    public ValueTask<MqttPublishReport> PublishManyAsync(ReadOnlyMemory<MqttMessage> messages, CancellationToken cancellationToken = default)
    {
        foreach (var message in messages.Span)
            Published.Add((message.Topic, message.Payload.ToArray(), message.QualityOfService, message.Retain, message.Expiry));
        return ValueTask.FromResult(MqttPublishReport.Create(results.Length == 0 ? new MqttPublishResult[messages.Length] : results));
    }
}

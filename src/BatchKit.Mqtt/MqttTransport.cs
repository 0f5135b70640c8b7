using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Mqtt;

/// <summary>Publishes batches over MQTT: a handle is a topic, and every message of a send is a packet of one write.</summary>
public sealed class MqttTransport : IBatchTransport, IMqttPublisher, IAsyncDisposable
{
    /// <summary>Makes a transport; it does not connect yet.</summary>
    /// <param name="options">Its settings.</param>
    /// <param name="timeProvider">The time; the system's when null.</param>
    /// <param name="logger">Where it logs its connections; nowhere when null.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public MqttTransport(MqttOptions options, TimeProvider? timeProvider = null, ILogger<MqttTransport>? logger = null) => throw new NotSupportedException();

    /// <summary>Why it has no connection, for a person and without secrets; null while it has one, or needs none yet.</summary>
    public string? Fault => throw new NotSupportedException();

    /// <inheritdoc/>
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => throw new NotSupportedException();

    /// <inheritdoc/>
    public ValueTask<MqttPublishReport> PublishManyAsync(ReadOnlyMemory<MqttMessage> messages, CancellationToken cancellationToken = default) =>
        throw new NotSupportedException();

    /// <summary>Says goodbye and closes the connection. Dispose the buffer first: what is being sent fails.</summary>
    public ValueTask DisposeAsync() => throw new NotSupportedException();
}

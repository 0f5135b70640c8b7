namespace BatchKit.Mqtt;

/// <summary>Publishes many messages at once, for those who need no scopes. <see cref="MqttTransport"/> is one; tests may bring their own.</summary>
/// <remarks>Thread-safe. Messages leave in the order of the calls, and within a call in its order.</remarks>
public interface IMqttPublisher
{
    /// <summary>Writes the messages as packets, as many in one write as fit, and completes when each has its result.</summary>
    /// <remarks>One that can't be sent (a bad topic, too large, QoS 2) has a result that says so and keeps no other from being sent. Unacknowledged ones are sent again after a lost connection.</remarks>
    /// <param name="messages">The messages; they and their memory must stay unchanged until the task has ended.</param>
    /// <param name="cancellationToken">Gives up what has no result yet; the broker may or may not have it.</param>
    /// <exception cref="IOException">The broker refused the connection, or there was none within <see cref="MqttOptions.PublishTimeout"/>. What had no answer may or may not have arrived.</exception>
    /// <exception cref="TimeoutException">The broker did not acknowledge everything within <see cref="MqttOptions.PublishTimeout"/>.</exception>
    /// <exception cref="OperationCanceledException">It was cancelled.</exception>
    /// <exception cref="ObjectDisposedException">The publisher is disposed.</exception>
    ValueTask<MqttPublishReport> PublishManyAsync(ReadOnlyMemory<MqttMessage> messages, CancellationToken cancellationToken = default);
}

using BatchKit.Mqtt;
using SensorHub.World;

namespace SensorHub.Publishing;

/// <summary>For comparison: publishes each change by itself, and waits for the broker before the next.</summary>
internal sealed class BaselinePublisher(GameWorld world, IMqttPublisher publisher) : IChangePublisher
{
    private readonly MqttMessage[] _message = new MqttMessage[1];

    public async ValueTask PublishAsync(int changes, CancellationToken cancellationToken)
    {
        for (var count = 0; count < changes && !cancellationToken.IsCancellationRequested; count++)
        {
            var change = world.ChangeOne();
            _message[0] = new MqttMessage(change.Handle.Name!, change.Payload)
            {
                ContentType = change.Header.ContentType,
                UserProperties = change.Header.Properties.AsMemory(),
            };
            try
            {
                await publisher.PublishManyAsync(_message, cancellationToken);
            }
            catch (Exception exception) when (exception is IOException or TimeoutException or OperationCanceledException)
            {
                // The broker was away for too long, or the hub ends. The change shows as written and not acknowledged; the next one tries anew.
            }
        }
    }
}

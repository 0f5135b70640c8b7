using BatchKit.Mqtt;
using SensorHub.World;

namespace SensorHub.Publishing;

/// <summary>For comparison: publishes each change alone, and waits for the broker before the next.</summary>
internal sealed class BaselinePublisher(GameWorld world, IMqttPublisher publisher) : IChangePublisher
{
    private readonly MqttMessage[] _message = new MqttMessage[1];

    public async ValueTask<int> PublishAsync(int changes, CancellationToken cancellationToken)
    {
        var made = 0;
        for (; made < changes && !cancellationToken.IsCancellationRequested; made++)
        {
            var change = world.ChangeOne();
            _message[0] = new MqttMessage(change.Handle.Name!, change.Payload)
            {
                ContentType = change.Header.ContentType,
                UserProperties = change.Header.Properties.AsMemory(),
            };
            try
            {
                await publisher.PublishManyAsync(_message, CancellationToken.None);
            }
            catch (Exception exception) when (exception is IOException or TimeoutException)
            {
                // The broker did not answer within PublishTimeout. The change counts as not acknowledged, and the next change is published.
            }
        }

        return made;
    }
}

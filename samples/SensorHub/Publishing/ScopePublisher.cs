using SensorHub.World;

namespace SensorHub.Publishing;

/// <summary>Publishes a tick's changes in one buffering scope: they leave in one send, with many packets in one write.</summary>
internal sealed class ScopePublisher(GameWorld world, IOutputBuffer output) : IChangePublisher
{
    public ValueTask<int> PublishAsync(int changes, CancellationToken cancellationToken)
    {
        // Closing the scope queues what was written. It does not wait for the broker, so an outage does not stop the game's loop.
        using (output.BeginBufferingScope())
        {
            for (var count = 0; count < changes; count++)
            {
                var change = world.ChangeOne();
                output.Write(change.Handle, change.Payload.Span, change.Header);
            }
        }

        return new(changes);
    }
}

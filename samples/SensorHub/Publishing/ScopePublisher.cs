using SensorHub.World;

namespace SensorHub.Publishing;

/// <summary>Publishes a tick's changes in one buffering scope: they leave in one send, as many packets in one write as fit.</summary>
internal sealed class ScopePublisher(GameWorld world, IOutputBuffer output) : IChangePublisher
{
    public ValueTask<int> PublishAsync(int changes, CancellationToken cancellationToken)
    {
        // Closing the scope queues what was written. It does not wait for the broker, so the game's loop goes on whatever happens there.
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

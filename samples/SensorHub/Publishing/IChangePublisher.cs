namespace SensorHub.Publishing;

/// <summary>Takes the world's changes to the broker: in scopes, or for comparison one await at a time.</summary>
internal interface IChangePublisher
{
    /// <summary>Makes this many changes and publishes them.</summary>
    ValueTask PublishAsync(int changes, CancellationToken cancellationToken);
}

namespace SensorHub.Publishing;

/// <summary>Takes the world's changes to the broker: in scopes, or for comparison one await at a time.</summary>
internal interface IChangePublisher
{
    /// <summary>Makes and publishes so many changes, or fewer when the token is cancelled meanwhile.</summary>
    /// <returns>How many it were.</returns>
    ValueTask<int> PublishAsync(int changes, CancellationToken cancellationToken);
}

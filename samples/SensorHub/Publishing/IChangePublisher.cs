namespace SensorHub.Publishing;

/// <summary>Publishes the world's changes: in scopes, or for comparison one await at a time.</summary>
internal interface IChangePublisher
{
    /// <summary>Makes and publishes a number of changes, or fewer when the token is cancelled.</summary>
    /// <returns>The number of changes that were made.</returns>
    ValueTask<int> PublishAsync(int changes, CancellationToken cancellationToken);
}

namespace BatchKit.Postgres.Receiving;

/// <summary>
/// Shares a worker's time between fresh messages and retries. Not its turns: retries are claimed one by one, so that turn by turn what a crashed worker left would wait for a hundred batches of whatever else there is.
/// </summary>
internal sealed class RetryShare
{
    // What stands for a time too short to measure, so that turns change even then.
    private static readonly TimeSpan Least = TimeSpan.FromTicks(1);

    private TimeSpan _left = Least;

    /// <summary>True while retries have time left: as much as the last fresh batch took, and a turn at least.</summary>
    public bool IsRetriesTurn => _left > TimeSpan.Zero;

    /// <summary>A batch took so long to claim and to handle.</summary>
    public void Took(TimeSpan time, bool isRetry)
    {
        var spent = time > Least ? time : Least;
        _left = isRetry ? _left - spent : spent;
    }
}

namespace BatchKit.Transports;

/// <summary>Decides, for a transport over a broker, whether frames to all nodes that reach no queue are sent again.</summary>
/// <remarks>
/// A frame that reaches no queue is no error when no one receives. But when earlier frames did reach a queue, someone has deleted an exchange or a binding, or all receivers are
/// gone. For a while such a frame counts as not taken, so that receivers can bind their queues again. Thread-safe.
/// </remarks>
/// <param name="grace">How long such frames are sent again, from the first one.</param>
/// <param name="timeProvider">Measures that time.</param>
internal sealed class UnroutedGroups(TimeSpan grace, TimeProvider timeProvider)
{
    private volatile bool _hasReached;
    private volatile bool _isUnrouted;
    private long _since;

    /// <summary>Records that a frame to all nodes has reached a queue.</summary>
    public void Reach()
    {
        if (!_hasReached)
            _hasReached = true;
        if (_isUnrouted)
            _isUnrouted = false;
    }

    /// <summary>Records that a frame to all nodes has reached no queue.</summary>
    /// <returns>True when the frame is to be sent again: frames have reached a queue before, and the time is not over.</returns>
    public bool ShouldRetry()
    {
        if (!_hasReached)
            return false;
        if (!_isUnrouted)
        {
            Volatile.Write(ref _since, timeProvider.GetTimestamp());
            _isUnrouted = true;
        }

        if (timeProvider.GetElapsedTime(Volatile.Read(ref _since)) < grace)
            return true;
        _hasReached = false;
        _isUnrouted = false;
        return false;
    }
}

using BatchKit.Batches;

namespace BatchKit.Buffering;

/// <summary>How long the limits of a handle's scopes hold its output back. Guarded by the handle's lock.</summary>
internal struct HandleHold(HoldQueue queue)
{
    private const long Untimed = long.MaxValue;

    // The moment that the limit counts from. Scopes open and close meanwhile, and each may change which limit applies.
    private long _since;
    private long _timedFor = Untimed;

    /// <summary>Finds the limit that applies now, and whether it has passed. If it has not, the hold queue calls the handle when it does.</summary>
    /// <param name="handle">The handle.</param>
    /// <param name="hasHeld">Whether it holds anything.</param>
    /// <param name="scopes">Its open scopes.</param>
    /// <param name="countsFromNow">True for the first message that is held, and at the end of a scope that had no limit: the limit counts from now.</param>
    public bool IsOver(ITimedHold handle, bool hasHeld, in HandleScopes scopes, bool countsFromNow)
    {
        if (!hasHeld || !scopes.AllHaveLimits || scopes.LongestHold() is not { } limit)
            return false;
        if (countsFromNow)
            _since = queue.Clock.Now;
        var ends = queue.Clock.After(_since, limit);
        if (!countsFromNow && queue.Clock.Until(ends) <= TimeSpan.Zero)
            return true;
        Time(handle, ends);
        return false;
    }

    /// <summary>The hold queue has called the handle, and no longer keeps it.</summary>
    public void OnDue() => _timedFor = Untimed;

    /// <summary>Nothing is held: the hold queue must not keep the handle.</summary>
    public void End(ITimedHold handle)
    {
        if (_timedFor == Untimed)
            return;
        _timedFor = Untimed;
        queue.Remove(handle);
    }

    // A call that is due earlier comes too early, and then requests the next one. A later call would be too late.
    private void Time(ITimedHold handle, long ends)
    {
        if (_timedFor <= ends)
            return;
        _timedFor = ends;
        queue.Add(handle, ends);
    }
}

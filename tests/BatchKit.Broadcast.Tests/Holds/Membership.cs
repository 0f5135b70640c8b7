namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>One client's time in a group: what it must get, told by who let it join and leave, and what it got, told by its reader.</summary>
internal sealed class Membership(int stream)
{
    private long _mustBeginAt = long.MaxValue;
    private long _mustReach;
    private long _first;
    private long _last;

    public int Stream { get; } = stream;

    /// <summary>Everything from here on was written after the join.</summary>
    public void MustBeginAt(long number) => Volatile.Write(ref _mustBeginAt, number);

    /// <summary>Everything up to here was written before the leave.</summary>
    public void MustReach(long number) => Volatile.Write(ref _mustReach, number);

    /// <returns>What is wrong with this number; null when nothing is.</returns>
    public string? Take(long number)
    {
        var last = _last;
        _last = number;
        if (last == 0)
            _first = number;
        return last == 0 || number == last + 1 ? null : $"got {number} behind {last}";
    }

    /// <returns>What is missing at the end; null when nothing is.</returns>
    public string? End()
    {
        var (begin, reach) = (Volatile.Read(ref _mustBeginAt), Volatile.Read(ref _mustReach));
        return reach < begin || (_last >= reach && _first <= begin) ? null : $"got {_first} to {_last} and not all of {begin} to {reach}";
    }
}

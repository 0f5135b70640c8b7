namespace MudServer.Clients;

/// <summary>Delays the lines of a client that sends more than anyone types. Used by the client's reader only.</summary>
internal sealed class LinePace(TimeProvider timeProvider)
{
    public const int LinesPerSecond = 20;

    /// <summary>The lines that may come at once: a pasted screen of text.</summary>
    public const int LineBurst = 40;

    private static readonly TimeSpan TimePerLine = TimeSpan.FromSeconds(1) / LinesPerSecond;

    private readonly long _began = timeProvider.GetTimestamp();

    // When all lines of a burst may come at once again.
    private TimeSpan _restedAt;

    /// <summary>Counts a line.</summary>
    /// <returns>How long it must wait; not positive when it need not.</returns>
    public TimeSpan Take()
    {
        var now = timeProvider.GetElapsedTime(_began);
        _restedAt = (_restedAt > now ? _restedAt : now) + TimePerLine;
        return _restedAt - now - (LineBurst * TimePerLine);
    }
}

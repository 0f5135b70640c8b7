namespace BatchKit.Broadcast.Connections;

/// <summary>When a connection began, and when it was last heard of. Written by its reader, read by the sweep.</summary>
internal sealed class ConnectionActivity(TimeProvider timeProvider)
{
    private readonly long _startedAt = timeProvider.GetTimestamp();
    private long _recordAt = timeProvider.GetTimestamp();
    private long _heardAt = timeProvider.GetTimestamp();
    private long _receivedBytes;

    public TimeSpan Age => timeProvider.GetElapsedTime(_startedAt);

    /// <summary>How long ago a whole record came.</summary>
    public TimeSpan RecordAge => timeProvider.GetElapsedTime(Volatile.Read(ref _recordAt));

    /// <summary>How long ago anything came, or a keep-alive was sent.</summary>
    public TimeSpan Silence => timeProvider.GetElapsedTime(Volatile.Read(ref _heardAt));

    public long ReceivedBytes => Volatile.Read(ref _receivedBytes);

    public void NoteBytes(int bytes)
    {
        Volatile.Write(ref _receivedBytes, _receivedBytes + bytes);
        NoteKeepAlive();
    }

    public void NoteRecord() => Volatile.Write(ref _recordAt, timeProvider.GetTimestamp());

    public void NoteKeepAlive() => Volatile.Write(ref _heardAt, timeProvider.GetTimestamp());
}

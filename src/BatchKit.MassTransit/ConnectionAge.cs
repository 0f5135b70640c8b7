namespace BatchKit.MassTransit;

/// <summary>When a bus last began to connect, or failed. Shortly after that receivers may still be on their way back.</summary>
internal sealed class ConnectionAge(TimeProvider timeProvider)
{
    private long _begun = timeProvider.GetTimestamp();

    public void Restart() => Volatile.Write(ref _begun, timeProvider.GetTimestamp());

    public bool IsBelow(TimeSpan limit) => timeProvider.GetElapsedTime(Volatile.Read(ref _begun)) < limit;
}

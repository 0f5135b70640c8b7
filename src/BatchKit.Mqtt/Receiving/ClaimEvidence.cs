namespace BatchKit.Mqtt.Receiving;

/// <summary>Until when a claim that the broker has confirmed certainly holds: from then on the broker may have ended it, and another process may have the number.</summary>
/// <remarks>The broker ends the connection of a process that it hears nothing of, and with it the claim. It has heard the claim that it confirms when that was sent or later, so the time counts from there.</remarks>
internal sealed class ClaimEvidence(TimeProvider timeProvider)
{
    /// <summary>A claim expires when no will clears it because the broker ended together with the holder (MQTT 5 only).</summary>
    public static readonly TimeSpan Expiry = TimeSpan.FromSeconds(30);

    // One and a half times the keep-alive (MQTT 5, section 3.1.2.10).
    private const double KeptKeepAlives = 1.5;

    private static readonly TimeSpan LongestRefreshInterval = TimeSpan.FromSeconds(10);

    // Guards the fields below: one task sends, another reads answers, and others ask.
    private readonly Lock _lock = new();
    private TimeSpan _kept;
    private (ushort PacketId, long At) _sent;
    private long? _confirmed;

    /// <summary>How often the claim is sent again.</summary>
    public TimeSpan RefreshInterval { get; private set; } = LongestRefreshInterval;

    /// <summary>True while the claim certainly holds.</summary>
    public bool IsFresh
    {
        get
        {
            lock (_lock)
                return _confirmed is { } confirmed && timeProvider.GetElapsedTime(confirmed) < _kept;
        }
    }

    /// <summary>A connection begins: nothing of it is confirmed.</summary>
    public void Begin(TimeSpan keepAlive)
    {
        lock (_lock)
            (_kept, _confirmed) = (TimeSpan.FromTicks(Math.Min(Expiry.Ticks, (long)(keepAlive.Ticks * KeptKeepAlives))), null);
        RefreshInterval = keepAlive < LongestRefreshInterval ? keepAlive : LongestRefreshInterval;
    }

    public void Send(ushort packetId)
    {
        lock (_lock)
            _sent = (packetId, timeProvider.GetTimestamp());
    }

    /// <summary>The broker has acknowledged a packet.</summary>
    public void Confirm(ushort packetId)
    {
        lock (_lock)
        {
            if (_sent.PacketId == packetId)
                _confirmed = _sent.At;
        }
    }

    /// <summary>The broker has passed the claim on that was sent last.</summary>
    public void Confirm()
    {
        lock (_lock)
            _confirmed = _sent.At;
    }
}

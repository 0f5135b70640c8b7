using BatchKit.Transports;

namespace BatchKit.Mqtt.Connections;

/// <summary>Pings the broker after the keep-alive time without traffic, and detects a dead connection (MQTT 5, section 3.1.2.10).</summary>
/// <remarks>
/// Silence in one direction is enough for a ping: a client that only publishes with QoS 0 would otherwise never notice a dead broker. Nothing is read while packets are handled, so
/// silence during that time does not count.
/// </remarks>
internal sealed class KeepAlive
{
    private const long NotReading = -1;

    private readonly TimeSpan _interval;
    private readonly PacketOutput _output;
    private readonly TimeProvider _timeProvider;

    // Written by the reader, read by the watcher.
    private long _readingSince = NotReading;
    private long _lastArrival;
    private long _arrivals;

    // Used by the watcher only.
    private bool _isPinging;
    private long _lastPing;
    private long _arrivalsAtPing;

    public KeepAlive(TimeSpan interval, PacketOutput output, TimeProvider timeProvider)
    {
        _interval = interval;
        _output = output;
        _timeProvider = timeProvider;
        _lastArrival = timeProvider.GetTimestamp();
    }

    private static ReadOnlySpan<byte> PingRequest => [0xC0, 0];

    /// <summary>How long the read under way has waited; zero while nothing is read.</summary>
    public TimeSpan SilentFor => Volatile.Read(ref _readingSince) is var since and not NotReading ? _timeProvider.GetElapsedTime(since) : TimeSpan.Zero;

    public void BeginRead() => Volatile.Write(ref _readingSince, _timeProvider.GetTimestamp());

    public void EndRead()
    {
        Volatile.Write(ref _lastArrival, _timeProvider.GetTimestamp());
        Volatile.Write(ref _arrivals, _arrivals + 1);
        Volatile.Write(ref _readingSince, NotReading);
    }

    /// <summary>Keeps the connection alive until it is dead.</summary>
    /// <returns>The human-readable reason.</returns>
    public async Task<string> WatchAsync(CancellationToken cancellationToken)
    {
        while (true)
        {
            var pause = Check();
            if (pause <= TimeSpan.Zero)
                return $"The broker was silent for {_interval / 2} after a ping: half of {nameof(MqttOptions.KeepAlive)}, or of the broker's own.";
            await Task.Delay(WholeMilliseconds.Of(pause), _timeProvider, cancellationToken).ConfigureAwait(false);
        }
    }

    // Returns the time until the next check; zero or less when the connection is dead.
    private TimeSpan Check()
    {
        var readingSince = Volatile.Read(ref _readingSince);
        if (_isPinging && Volatile.Read(ref _arrivals) != _arrivalsAtPing)
            _isPinging = false;
        if (_isPinging && readingSince != NotReading)
            return (_interval / 2) - _timeProvider.GetElapsedTime(Math.Max(_lastPing, readingSince));

        var quietSince = readingSince == NotReading ? _output.LastWrite : Math.Min(_output.LastWrite, Volatile.Read(ref _lastArrival));
        var pause = _interval - _timeProvider.GetElapsedTime(quietSince);
        if (pause > TimeSpan.Zero)
            return _isPinging && pause > _interval / 2 ? _interval / 2 : pause;
        Ping();
        return _interval / 2;
    }

    private void Ping()
    {
        _isPinging = true;
        _lastPing = _timeProvider.GetTimestamp();
        _arrivalsAtPing = Volatile.Read(ref _arrivals);
        _output.Append(PingRequest);
        _output.Flush();
    }
}

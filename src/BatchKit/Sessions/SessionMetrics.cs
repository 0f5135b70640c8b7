using System.Diagnostics.Metrics;
using BatchKit.Diagnostics;

namespace BatchKit.Sessions;

/// <summary>The instruments of the sessions, read from their counters on collection.</summary>
internal sealed class SessionMetrics
{
    private readonly Meter _meter;

    public SessionMetrics(Func<SessionStatistics> read, IMeterFactory? meterFactory)
    {
        var options = new MeterOptions(BatchKitMetrics.MeterName);
        _meter = meterFactory?.Create(options) ?? new Meter(options);
        _meter.CreateObservableUpDownCounter("batchkit.sessions", () => read().Sessions, "{session}", "Sessions that exist.");
        _meter.CreateObservableUpDownCounter("batchkit.sessions.away", () => read().AwaySessions, "{session}", "Sessions without a connection.");
        _meter.CreateObservableUpDownCounter("batchkit.sessions.waiting", () => read().WaitingBytes, "By", "Bytes that wait for clients or for their acknowledgements.");
        _meter.CreateObservableCounter("batchkit.sessions.resumed", () => read().ResumedSessions, "{session}", "Sessions that were taken up again.");
        _meter.CreateObservableCounter("batchkit.sessions.expired", () => read().ExpiredSessions, "{session}", "Sessions whose client did not come back in time.");
        _meter.CreateObservableCounter("batchkit.sessions.lost", () => read().LostMessages, "{message}", "Messages of sessions that did not reach their client.");
    }

    /// <summary>Ends the instruments. What a listener throws meanwhile is counted.</summary>
    public void Dispose(ObserverFaults faults) => faults.Dispose(_meter);
}

/// <summary>Creates meters with a buffer's name, so that the sessions of several buffers are told apart.</summary>
internal sealed class BufferMeters(IMeterFactory inner, string buffer) : IMeterFactory
{
    /// <summary>Null where the services have no meters.</summary>
    public static IMeterFactory? Of(IMeterFactory? inner, string buffer) => inner is null ? null : new BufferMeters(inner, buffer);

    public Meter Create(MeterOptions options)
    {
        options.Tags = [new("batchkit.buffer", buffer)];
        return inner.Create(options);
    }

    public void Dispose()
    {
        // The services end the inner one.
    }
}

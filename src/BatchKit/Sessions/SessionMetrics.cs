using System.Diagnostics.Metrics;
using BatchKit.Diagnostics;

namespace BatchKit.Sessions;

/// <summary>The instruments of the sessions, read from their counters on collection.</summary>
internal sealed class SessionMetrics
{
    private readonly ObserverFaults _faults;
    private readonly Meter? _meter;

    /// <param name="read">Reads the counters.</param>
    /// <param name="meterFactory">Creates the meter; null for one of its own.</param>
    /// <param name="faults">Counts what the meter's listeners throw.</param>
    public SessionMetrics(Func<SessionStatistics> read, IMeterFactory? meterFactory, ObserverFaults faults)
    {
        _faults = faults;
        _meter = faults.CreateMeter(meterFactory, [], meter => AddInstruments(meter, read));
    }

    /// <summary>Ends the instruments.</summary>
    public void Dispose() => _faults.Dispose(_meter);

    private static void AddInstruments(Meter meter, Func<SessionStatistics> read)
    {
        meter.CreateObservableUpDownCounter("batchkit.sessions", () => read().Sessions, "{session}", "Sessions that exist.");
        meter.CreateObservableUpDownCounter("batchkit.sessions.away", () => read().AwaySessions, "{session}", "Sessions without a connection.");
        meter.CreateObservableUpDownCounter("batchkit.sessions.waiting", () => read().WaitingBytes, "By", "Bytes that wait for clients or for their acknowledgements.");
        meter.CreateObservableCounter("batchkit.sessions.resumed", () => read().ResumedSessions, "{session}", "Sessions that were taken up again.");
        meter.CreateObservableCounter("batchkit.sessions.expired", () => read().ExpiredSessions, "{session}", "Sessions whose client did not come back in time.");
        meter.CreateObservableCounter("batchkit.sessions.lost", () => read().LostMessages, "{message}", "Messages of sessions that did not reach their client.");
    }
}

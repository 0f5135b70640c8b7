using System.Collections.Concurrent;
using System.Diagnostics.Metrics;

namespace BatchKit.TestSupport;

/// <summary>Reads the instruments of connections that one meter factory has.</summary>
public sealed class ConnectionReadings : IDisposable
{
    private readonly ConcurrentQueue<(string Instrument, double Value, Dictionary<string, string> Tags)> _read = new();
    private readonly MeterListener _listener = new();

    public ConnectionReadings(IMeterFactory factory)
    {
        _listener.InstrumentPublished = (instrument, own) =>
        {
            // Other tests have meters of the same name.
            if (instrument.Meter.Scope == factory && instrument.Name.StartsWith("batchkit.connection", StringComparison.Ordinal))
                own.EnableMeasurementEvents(instrument);
        };
        _listener.SetMeasurementEventCallback<long>((instrument, value, tags, _) => Add(instrument, value, tags));
        _listener.SetMeasurementEventCallback<double>((instrument, value, tags, _) => Add(instrument, value, tags));
        _listener.Start();
    }

    /// <summary>The purpose, target and messaging system of each connection.</summary>
    public IEnumerable<(string Purpose, string Target, string System)> Connections()
    {
        _listener.RecordObservableInstruments();
        return _read.Select(static one => (one.Tags["batchkit.purpose"], one.Tags["batchkit.target"], one.Tags["messaging.system"])).Distinct();
    }

    /// <summary>The state of the connection with this purpose.</summary>
    public string StateOf(string purpose)
    {
        _listener.RecordObservableInstruments();
        var states = _read.Where(one => one.Instrument == "batchkit.connections" && one.Tags["batchkit.purpose"] == purpose).TakeLast(3);
        return states.Single(static one => one.Value == 1).Tags["batchkit.state"];
    }

    /// <summary>How often this happened to the connection with this purpose.</summary>
    public double CountOf(string purpose, string change)
    {
        _listener.RecordObservableInstruments();
        return _read.Last(one => one.Instrument == "batchkit.connection.changes" && one.Tags["batchkit.purpose"] == purpose && one.Tags["batchkit.change"] == change).Value;
    }

    /// <summary>Loses connections and lets them come back. The readings then show one loss and one restore of the receiver's, and all connections with this target and messaging system.</summary>
    /// <param name="lose">Loses the connections.</param>
    /// <param name="resume">Lets them connect again.</param>
    /// <param name="target">The target of each.</param>
    /// <param name="system">The messaging system of each.</param>
    /// <param name="down">The purposes of those that notice the loss.</param>
    /// <param name="open">The purposes of those that connect again by themselves.</param>
    public async Task AssertOutageAsync(Action lose, Action resume, string target, string system, string[] down, string[] open)
    {
        lose();
        await Until.TrueAsync(() => down.All(purpose => StateOf(purpose) == "Down"));
        resume();
        await Until.TrueAsync(() => open.All(purpose => StateOf(purpose) == "Open"));
        // A loss is counted before its duration is recorded.
        await Until.TrueAsync(() => Outages() > 0);

        Assert.Equal((1, 1, 1), (CountOf("receiver", "Lost"), CountOf("receiver", "Restored"), Outages()));
        Assert.All(Connections(), one => Assert.Equal((target, system), (one.Target, one.System)));
    }

    public void Dispose() => _listener.Dispose();

    // How many outages of the receiver's connection were recorded when they ended.
    private int Outages() => _read.Count(static one => one.Instrument == "batchkit.connection.restore.duration" && one.Tags["batchkit.purpose"] == "receiver");

    private void Add(Instrument instrument, double value, ReadOnlySpan<KeyValuePair<string, object?>> tags)
    {
        var texts = new Dictionary<string, string>(StringComparer.Ordinal);
        foreach (var (name, text) in tags)
            texts.Add(name, (string)text!);
        _read.Enqueue((instrument.Name, value, texts));
    }
}

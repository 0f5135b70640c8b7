using System.Diagnostics.Metrics;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.Tests.Transports;

/// <summary>What the callback and the instruments are told of a connection.</summary>
public sealed class ConnectionReporterTests : IDisposable
{
    private readonly List<ConnectionChange> _changes = [];
    private readonly List<(string Instrument, double Value, KeyValuePair<string, object?>[] Tags)> _measured = [];
    private readonly ManualTimeProvider _clock = new();
    private readonly ServiceProvider _services = new ServiceCollection().AddMetrics().BuildServiceProvider();
    private readonly MeterListener _listener = new();

    private IMeterFactory MeterFactory => _services.GetRequiredService<IMeterFactory>();

    public void Dispose()
    {
        _listener.Dispose();
        _services.Dispose();
    }

    [Fact]
    public void A_failed_attempt_is_no_loss_for_the_callback_and_down_for_the_instruments()
    {
        Listen();
        var reporter = Reporter();

        reporter.Lose("The first attempt failed.");

        Assert.Empty(_changes);
        Assert.Equal([("Closed", 0), ("Open", 0), ("Down", 1)], Collect("batchkit.connections", "batchkit.state"));
    }

    [Fact]
    public void The_instruments_show_the_state_and_each_change()
    {
        Listen();
        var reporter = Reporter();
        Assert.Equal([("Closed", 1), ("Open", 0), ("Down", 0)], Collect("batchkit.connections", "batchkit.state"));

        reporter.Open();
        reporter.Lose("The cable was cut.");
        reporter.Lose("It still is.");
        reporter.Open();

        Assert.Equal([BrokerConnectionState.Connected, BrokerConnectionState.Lost, BrokerConnectionState.Restored], _changes.Select(static change => change.State));
        Assert.Equal([("Closed", 0), ("Open", 1), ("Down", 0)], Collect("batchkit.connections", "batchkit.state"));
        Assert.Equal([("Connected", 1), ("Lost", 1), ("Restored", 1)], Collect("batchkit.connection.changes", "batchkit.change"));
    }

    [Fact]
    public void A_connection_that_the_application_closes_is_not_down_and_connects_for_the_first_time_again()
    {
        Listen();
        var reporter = Reporter();
        reporter.Open();

        reporter.Close();

        Assert.Equal([("Closed", 1), ("Open", 0), ("Down", 0)], Collect("batchkit.connections", "batchkit.state"));
        reporter.Open();
        Assert.Equal([BrokerConnectionState.Connected, BrokerConnectionState.Connected], _changes.Select(static change => change.State));
    }

    [Fact]
    public void The_time_of_an_outage_is_recorded_when_it_ends()
    {
        Listen();
        var reporter = Reporter();
        reporter.Open();
        reporter.Lose("The cable was cut.");

        _clock.Advance(TimeSpan.FromSeconds(90));
        reporter.Open();

        var outage = Assert.Single(_measured, static one => one.Instrument == "batchkit.connection.restore.duration");
        Assert.Equal(90, outage.Value);
        Assert.Equal(
            [("messaging.system", "rabbitmq"), ("batchkit.purpose", "sender"), ("batchkit.target", "the broker"), ("messaging.destination.name", "tasks")],
            outage.Tags.Select(static tag => (tag.Key, (string)tag.Value!)));
    }

    [Fact]
    public void Connections_with_the_same_tags_are_one_series()
    {
        Listen();
        var metrics = new ConnectionMetrics(MeterFactory, "game", _clock);
        var first = new ConnectionReporter(changed: null, "receiver", "the broker", metrics);
        var second = new ConnectionReporter(changed: null, "receiver", "the broker", metrics);

        first.Open();
        second.Lose("It can't be reached.");

        Assert.Equal([("Closed", 0), ("Open", 1), ("Down", 1)], Collect("batchkit.connections", "batchkit.state"));
        GC.KeepAlive(first);
    }

    [Fact]
    public void A_meter_listener_that_throws_stops_no_report()
    {
        Listen();
        _listener.SetMeasurementEventCallback<double>(static (_, _, _, _) => throw new InvalidOperationException("The listener is broken."));
        var reporter = Reporter();

        reporter.Open();
        reporter.Lose("The cable was cut.");
        reporter.Open();

        Assert.Equal(BrokerConnectionState.Restored, _changes[^1].State);
        Assert.Equal("A listener of the meter BatchKit failed 1 times; the last time it threw InvalidOperationException.", reporter.CallbackFault);
    }

    [Fact]
    public void A_meter_listener_that_throws_at_the_instruments_stops_no_report()
    {
        _listener.InstrumentPublished = (instrument, _) =>
        {
            if (instrument.Meter.Scope == MeterFactory)
                throw new InvalidOperationException("The listener is broken.");
        };
        _listener.Start();

        var reporter = Reporter();
        reporter.Open();

        Assert.Single(_changes);
        Assert.Contains("A listener of the meter", reporter.CallbackFault, StringComparison.Ordinal);
    }

    [Fact]
    public void A_buffers_connections_have_its_instruments()
    {
        var services = new ServiceCollection().AddMetrics();
        services.AddBatchKit("game");
        using var provider = services.BuildServiceProvider();
        var factory = provider.GetRequiredService<IMeterFactory>();
        var published = new List<Meter>();
        using var listener = new MeterListener
        {
            InstrumentPublished = (instrument, _) =>
            {
                // Other tests create theirs at the same time.
                if (instrument.Meter.Scope == factory)
                    published.Add(instrument.Meter);
            },
        };
        listener.Start();

        var reporter = new ConnectionReporter(changed: null, "sender", "the broker", provider.GetRequiredKeyedService<ConnectionMetrics>("game"));

        Assert.Contains(published, static meter => meter.Name == "BatchKit" && meter.Tags!.Contains(new KeyValuePair<string, object?>("batchkit.buffer", "game")));
        Assert.Null(reporter.CallbackFault);
    }

    private ConnectionReporter Reporter() => new(_changes.Add, "sender", "the broker", new ConnectionMetrics(MeterFactory, "game", _clock), "rabbitmq", "tasks");

    private void Listen()
    {
        _listener.InstrumentPublished = (instrument, own) =>
        {
            // Other tests have meters of the same name.
            if (instrument.Meter.Scope == MeterFactory)
                own.EnableMeasurementEvents(instrument);
        };
        _listener.SetMeasurementEventCallback<double>((instrument, value, tags, _) => _measured.Add((instrument.Name, value, tags.ToArray())));
        _listener.SetMeasurementEventCallback<long>((instrument, value, tags, _) => _measured.Add((instrument.Name, value, tags.ToArray())));
        _listener.Start();
    }

    private (string Tag, long Value)[] Collect(string instrument, string tag)
    {
        _measured.Clear();
        _listener.RecordObservableInstruments();
        return _measured.Where(one => one.Instrument == instrument).Select(one => ((string)one.Tags.Single(pair => pair.Key == tag).Value!, (long)one.Value)).ToArray();
    }
}

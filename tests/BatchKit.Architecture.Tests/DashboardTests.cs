using System.Diagnostics.Metrics;
using System.Text.Json;
using System.Text.RegularExpressions;
using BatchKit.Broadcast;
using BatchKit.Nats;
using BatchKit.Postgres;
using BatchKit.Redis;
using BatchKit.Sessions;
using BatchKit.SignalR;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Npgsql;

namespace BatchKit.Architecture.Tests;

/// <summary>The dashboard and the alert rules name the metrics as OpenTelemetry's exporters for Prometheus do.</summary>
public sealed partial class DashboardTests
{
    private static readonly string Dashboard = File.ReadAllText(Repository.In("docs", "dashboards", "batchkit.json"));
    private static readonly string Alerts = File.ReadAllText(Repository.In("docs", "dashboards", "alerts.yml"));

    // Labels begin like the metrics, and are no metrics.
    private static readonly string[] Labels =
    [
        "batchkit_reason", "batchkit_outcome", "batchkit_state", "batchkit_change", "batchkit_purpose", "batchkit_target", "messaging_system", "messaging_destination_name",
    ];

    [Fact]
    public async Task Each_metric_of_the_dashboard_and_of_the_alerts_exists()
    {
        var existing = (await InstrumentsAsync()).SelectMany(SeriesOf).ToHashSet(StringComparer.Ordinal);

        var named = Named(Dashboard).Concat(Named(Alerts)).ToArray();

        Assert.NotEmpty(named);
        Assert.All(named, name => Assert.Contains(name, existing));
    }

    /// <summary>Only a receiver tells the age of its queue: without one, no rule that compares the age fires.</summary>
    [Fact]
    public void An_alert_sees_a_queue_that_no_receiver_reads_any_more() =>
        Assert.Matches(@"expr: max by \((?<by>[a-z_, ]+)\) \(present_over_time\(batchkit_queue_age_seconds\[1d\]\)\) unless max by \(\k<by>\) \(batchkit_queue_age_seconds\)\n", Alerts);

    [Fact]
    public async Task Each_instrument_is_on_the_dashboard()
    {
        var named = Named(Dashboard).ToHashSet(StringComparer.Ordinal);

        var instruments = await InstrumentsAsync();

        Assert.NotEmpty(instruments);
        Assert.All(instruments, instrument => Assert.True(SeriesOf(instrument).Any(named.Contains), $"{instrument.Name} is not on the dashboard."));
    }

    [Fact]
    public async Task Each_instrument_in_the_sources_is_among_those_that_are_compared()
    {
        var written = (from file in Repository.Sources("src")
                       from match in DocumentTests.InstrumentName.Matches(file.Text)
                       select match.Groups["name"].Value).Order(StringComparer.Ordinal);

        var created = (await InstrumentsAsync()).Select(instrument => instrument.Name).Distinct(StringComparer.Ordinal).Order(StringComparer.Ordinal);

        Assert.Equal(written, created);
    }

    [Fact]
    public void Each_panel_has_a_title_a_description_and_a_query()
    {
        using var dashboard = JsonDocument.Parse(Dashboard);

        var panels = dashboard.RootElement.GetProperty("panels").EnumerateArray().Where(panel => panel.GetProperty("type").GetString() != "row").ToArray();

        Assert.All(panels, panel => Assert.NotEmpty(panel.GetProperty("title").GetString()!));
        Assert.All(panels, panel => Assert.NotEmpty(panel.GetProperty("description").GetString()!));
        Assert.All(panels, panel => Assert.NotEqual(0, panel.GetProperty("targets").GetArrayLength()));
    }

    [GeneratedRegex("\\b(batchkit|messaging)_[a-z_]+_?[a-z]+\\b", RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex MetricName { get; }

    private static IEnumerable<string> Named(string text) =>
        MetricName.Matches(text).Select(match => match.Value).Except(Labels, StringComparer.Ordinal);

    /// <summary>The series of an instrument: dots become underscores; the unit and, for a counter, <c>total</c> are appended.</summary>
    private static IEnumerable<string> SeriesOf(Instrument instrument)
    {
        var unit = instrument.Unit switch
        {
            "s" => "_seconds",
            "By" => "_bytes",
            _ => "",
        };
        var name = instrument.Name.Replace('.', '_');
        name += name.EndsWith(unit, StringComparison.Ordinal) ? "" : unit;
        var kind = instrument.GetType().Name;
        return kind.StartsWith("Histogram", StringComparison.Ordinal) ? [$"{name}_bucket", $"{name}_sum", $"{name}_count"]
            : kind.Contains("UpDown", StringComparison.Ordinal) || kind.Contains("Gauge", StringComparison.Ordinal) ? [name]
            : [$"{name}_total"];
    }

    /// <summary>All instruments that a buffer, a receiver, the connections of adapters, the queues and the transports to clients create.</summary>
    private static async Task<List<Instrument>> InstrumentsAsync()
    {
        using var factory = new OwnMeters();
        var instruments = new List<Instrument>();
        using var listener = new MeterListener
        {
            InstrumentPublished = (instrument, _) =>
            {
                if (factory.Meters.Contains(instrument.Meter))
                    instruments.Add(instrument);
            },
        };
        var services = new ServiceCollection().AddSingleton<IMeterFactory>(factory);
        services.AddBatchKit("nats").ReceiveFromNats(static _ => new NextHop());
        services.AddBatchKit("redis").ReceiveFromRedis(static _ => new NextHop());
        await using var provider = services.BuildServiceProvider();
        _ = provider.GetRequiredKeyedService<NatsReceiver>("nats");
        _ = provider.GetRequiredKeyedService<RedisReceiver>("redis");
        await using var buffer = new OutputBuffer(new NextHop(), meterFactory: factory);
        await using var sessions = new SessionTransport(() => buffer, meterFactory: factory);
        await using var broadcast = new BroadcastTransport(meterFactory: factory);
        using var hubs = new SignalRTransport(meterFactory: factory);
        await using var dataSource = NpgsqlDataSource.Create("Host=127.0.0.1");
        await using var queue = new PostgresQueueReceiver(dataSource, new PostgresQueueReceiverOptions { Queue = "tasks" }, new Handler(), meterFactory: factory);
        listener.Start();
        return instruments;
    }

    private sealed class OwnMeters : IMeterFactory
    {
        public List<Meter> Meters { get; } = [];

        public Meter Create(MeterOptions options)
        {
            Meters.Add(new Meter(options));
            return Meters[^1];
        }

        public void Dispose() => Meters.ForEach(static meter => meter.Dispose());
    }

    private sealed class Handler : IMessageHandler<QueueMessage>
    {
        public ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken) => default;
    }

    private sealed class NextHop : IBatchTransport
    {
        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => default;
    }
}

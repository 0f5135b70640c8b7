using BatchKit.Mqtt;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using SensorHub.Hosting;
using SensorHub.Measuring;
using Spectre.Console;
using Spectre.Console.Rendering;

namespace SensorHub.View;

/// <summary>Shows the figures of the hub: what it writes, what arrives, and the broker.</summary>
internal sealed class HubScreen(HubOptions options, HubMeter meter, HubConnections connections, HubHealth health) : IScreen
{
    private static readonly TimeSpan Second = TimeSpan.FromSeconds(1);

    private readonly RateHistory _arrivals = new(options.Rate);
    private readonly Queue<HubSnapshot> _lastSecond = new([meter.Take()]);

    public string Title
    {
        get
        {
            var version = options.Version == MqttVersion.V5 ? "5" : "3.1.1";
            var how = options.IsBaseline ? "one await at a time" : "in buffering scopes";
            return $"{Shown.Count(options.Rate)} changes/s to {Shown.Count(options.Topics)} topics, {how}, MQTT {version}, QoS {(int)options.QualityOfService}, {Address(options.Server)}";
        }
    }

    public IRenderable Draw(int width)
    {
        var reading = Look();
        var totals = reading.Totals;
        _arrivals.Add(totals.At, reading.ArrivedPerSecond);
        var rows = new Grid().AddColumn(new GridColumn { NoWrap = true, Padding = new Padding(0, 0, 2, 0) }).AddColumn();
        rows.AddRow("written", $"{Shown.Rate(reading.WrittenPerSecond)}  of {Shown.Count(options.Rate)}/s, {Shown.Count(totals.Written)} in all");
        rows.AddRow("arrived", $"{Shown.Rate(reading.ArrivedPerSecond)}  [{Shown.Good}]{_arrivals}[/]");
        rows.AddRow("latency", $"p50 [bold]{Shown.Time(reading.Latency.Median)}[/]   p99 [bold]{Shown.Time(reading.Latency.P99)}[/]   longest {Shown.Time(reading.Latency.Longest)}");
        rows.AddRow("batching", Batching(reading));
        rows.AddRow("window", $"{Bar(totals.Mqtt.InFlightMessages, totals.Mqtt.Window)}  {Shown.Count(totals.Mqtt.InFlightMessages)} of {Shown.Count(totals.Mqtt.Window)} in flight");
        rows.AddRow("buffer", Buffer(totals));
        rows.AddRow("broker", Broker(totals, width - Shown.FrameWidth));
        rows.AddRow("trouble", Trouble(totals));
        rows.AddRow("health", Health());
        return new Panel(rows) { Header = new PanelHeader($" [bold]SensorHub[/]  {Markup.Escape(Shown.Cut(Title, width - Shown.FrameWidth))} "), Border = BoxBorder.Rounded, Width = width };
    }

    public string Say()
    {
        var reading = Look();
        var totals = reading.Totals;
        if (totals.Written == 0 && connections.Fault is not null)
            return $"waiting for the broker: {connections.Fault}";
        var batches = options.IsBaseline ? "" : $"  {Shown.Ratio(reading.MessagesPerSend)} a send  {Shown.Count(totals.Output.PendingMessages)} pending";
        return $"{Shown.Clock(totals.At)}  written {Shown.Count(reading.WrittenPerSecond)}/s  arrived {Shown.Count(reading.ArrivedPerSecond)}/s  "
            + $"p50 {Shown.Time(reading.Latency.Median)}  p99 {Shown.Time(reading.Latency.P99)}{batches}  "
            + $"{totals.Mqtt.InFlightMessages} of {totals.Mqtt.Window} in flight  resent {Shown.Count(totals.Mqtt.ResentMessages)}  "
            + $"dropped {Shown.Count(totals.Dropped)}  {connections.Fault ?? "connected"}";
    }

    private HubReading Look()
    {
        var now = meter.Take();
        _lastSecond.Enqueue(now);
        while (_lastSecond.Count > 2 && now.At - _lastSecond.ElementAt(1).At >= Second)
            _lastSecond.Dequeue();
        return new HubReading(_lastSecond.Peek(), now);
    }

    private string Batching(HubReading reading) => options.IsBaseline
        ? "none: each change is published alone and awaited"
        : $"{Shown.Ratio(reading.MessagesPerSend)} messages a send, {Shown.Ratio(reading.MessagesPerBatch)} a batch, {Shown.Count(reading.SendsPerSecond)} sends/s";

    private static string Buffer(HubSnapshot totals) =>
        $"{Bar(totals.Output.BufferedBytes, HubApplication.MaxBufferedBytes)}  {Shown.Count(totals.Output.PendingMessages)} messages, "
            + $"{Megabytes(totals.Output.BufferedBytes)} of {Megabytes(HubApplication.MaxBufferedBytes)}";

    private string Broker(HubSnapshot totals, int width) => connections.Fault is { } fault
        ? $"[{Shown.Bad}]{Markup.Escape(Shown.Cut(fault, width))}[/]"
        : $"[{Shown.Good}]connected[/]   {Shown.Count(totals.Missing)} on the way to the subscriber";

    private static string Trouble(HubSnapshot totals) =>
        $"reconnects {Shown.Marked(totals.Mqtt.Connects - 1, Shown.Notable)}   resent {Shown.Marked(totals.Mqtt.ResentMessages, Shown.Notable)}   doubled {Shown.Marked(totals.Doubled, Shown.Notable)}   "
            + $"dropped {Shown.Marked(totals.Dropped, Shown.Bad)}   refused {Shown.Marked(totals.Mqtt.RefusedMessages, Shown.Bad)}   not made {Shown.Marked(totals.Skipped, Shown.Bad)}";

    private string Health() => health.Last switch
    {
        null => "not checked yet",
        { Status: HealthStatus.Healthy } => $"[{Shown.Good}]Healthy[/]",
        { } report => $"[{Shown.Bad}]{report.Status}[/]: {Markup.Escape(string.Join(", ", report.Entries.Where(entry => entry.Value.Status != HealthStatus.Healthy).Select(entry => entry.Key)))}",
    };

    private static string Bar(long value, long most)
    {
        const int width = 20;
        var full = most <= 0 ? 0 : (int)Math.Clamp(Math.Ceiling((double)value * width / most), 0, width);
        return $"[blue]{new string('█', full)}[/][grey]{new string('░', width - full)}[/]";
    }

    private static string Megabytes(long bytes) => $"{bytes / (1024.0 * 1024):N1} MB";

    private static string Address(Uri server) => server.IsDefaultPort ? $"{server.Scheme}://{server.Host}" : $"{server.Scheme}://{server.Authority}";
}

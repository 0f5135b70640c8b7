using Microsoft.Extensions.Diagnostics.HealthChecks;
using SensorHub.Hosting;
using SensorHub.Measuring;
using Spectre.Console;

namespace SensorHub.View;

/// <summary>Draws the figures of the live view.</summary>
internal sealed class HubPanel(HubOptions options, HubConnections connections, HubHealth health)
{
    // The border, the padding and the column of names.
    private const int FrameWidth = 18;

    private const string Good = "green";
    private const string Bad = "red";
    private const string Notable = "yellow";

    private readonly RateHistory _arrivals = new(options.Rate);

    public Panel Show(HubReading reading, int width)
    {
        var totals = reading.Totals;
        _arrivals.Add(totals.At, reading.ArrivedPerSecond);
        var rows = new Grid().AddColumn(new GridColumn { NoWrap = true, Padding = new Padding(0, 0, 2, 0) }).AddColumn();
        rows.AddRow("written", $"{Rate(reading.WrittenPerSecond)}  of {Shown.Count(options.Rate)}/s, {Shown.Count(totals.Written)} in all");
        rows.AddRow("arrived", $"{Rate(reading.ArrivedPerSecond)}  [{Good}]{_arrivals}[/]");
        rows.AddRow("latency", $"p50 [bold]{Shown.Time(reading.Latency.Median)}[/]   p99 [bold]{Shown.Time(reading.Latency.P99)}[/]   longest {Shown.Time(reading.Latency.Longest)}");
        rows.AddRow("batching", Batching(reading));
        rows.AddRow("window", $"{Bar(totals.Mqtt.InFlightMessages, totals.Mqtt.Window)}  {Shown.Count(totals.Mqtt.InFlightMessages)} of {Shown.Count(totals.Mqtt.Window)} in flight");
        rows.AddRow("buffer", Buffer(totals));
        rows.AddRow("broker", Broker(totals, width - FrameWidth));
        rows.AddRow("trouble", Trouble(totals));
        rows.AddRow("health", Health());
        return new Panel(rows) { Header = new PanelHeader($" [bold]SensorHub[/]  {Markup.Escape(Shown.Task(options))} "), Border = BoxBorder.Rounded, Width = width };
    }

    private static string Rate(double rate) => $"[bold]{Shown.Count(rate),8}/s[/]";

    private string Batching(HubReading reading) => options.IsBaseline
        ? "none: each change is published alone and awaited"
        : $"{Shown.Ratio(reading.MessagesPerSend)} messages a send, {Shown.Ratio(reading.MessagesPerBatch)} a batch, {Shown.Count(reading.SendsPerSecond)} sends/s";

    private static string Buffer(HubSnapshot totals) =>
        $"{Bar(totals.Output.BufferedBytes, HubApplication.MaxBufferedBytes)}  {Shown.Count(totals.Output.PendingMessages)} messages, "
            + $"{Shown.Megabytes(totals.Output.BufferedBytes)} of {Shown.Megabytes(HubApplication.MaxBufferedBytes)}";

    private string Broker(HubSnapshot totals, int width) => connections.Fault is { } fault
        ? $"[{Bad}]{Markup.Escape(Shown.Cut(fault, width))}[/]"
        : $"[{Good}]connected[/]   {Shown.Count(totals.Missing)} on the way to the subscriber";

    private static string Trouble(HubSnapshot totals) =>
        $"reconnects {Marked(totals.Mqtt.Connects - 1, Notable)}   resent {Marked(totals.Mqtt.ResentMessages, Notable)}   doubled {Marked(totals.Doubled, Notable)}   "
            + $"dropped {Marked(totals.Dropped, Bad)}   refused {Marked(totals.Mqtt.RefusedMessages, Bad)}   not made {Marked(totals.Skipped, Bad)}";

    private static string Marked(long count, string colour) => count <= 0 ? "0" : $"[{colour}]{Shown.Count(count)}[/]";

    private string Health() => health.Last switch
    {
        null => "not checked yet",
        { Status: HealthStatus.Healthy } => $"[{Good}]Healthy[/]",
        { } report => $"[{Bad}]{report.Status}[/]: {Markup.Escape(string.Join(", ", report.Entries.Where(entry => entry.Value.Status != HealthStatus.Healthy).Select(entry => entry.Key)))}",
    };

    private static string Bar(long value, long most)
    {
        const int width = 20;
        var full = most <= 0 ? 0 : (int)Math.Clamp(Math.Ceiling((double)value * width / most), 0, width);
        return $"[blue]{new string('█', full)}[/][grey]{new string('░', width - full)}[/]";
    }
}

using Microsoft.Extensions.Diagnostics.HealthChecks;
using SensorHub.Hosting;
using SensorHub.Measuring;
using Spectre.Console;

namespace SensorHub.View;

/// <summary>The live view's table of figures.</summary>
internal sealed class HubPanel(HubOptions options, HubConnections connections)
{
    private const string Good = "green";
    private const string Bad = "red";

    private readonly RateHistory _arrivals = new(options.Rate);

    public Table Show(HubReading reading)
    {
        var totals = reading.Totals;
        _arrivals.Add(totals.At, reading.ArrivedPerSecond);
        var table = new Table().Border(TableBorder.Rounded).BorderColor(Color.Grey).HideHeaders().Expand()
            .Title($"[bold]SensorHub[/]  {Markup.Escape(Shown.Task(options))}").AddColumn("").AddColumn("");
        table.Columns[0].Width(11).NoWrap();
        table.AddRow("written", $"{Rate(reading.WrittenPerSecond)}  of {Shown.Count(options.Rate)}/s   [grey]in all {Shown.Count(totals.Written)}[/]");
        table.AddRow("arrived", $"{Rate(reading.ArrivedPerSecond)}  [{Good}]{_arrivals}[/]");
        table.AddRow("latency", $"p50 [bold]{Shown.Milliseconds(reading.Latency.Median)}[/]  p99 [bold]{Shown.Milliseconds(reading.Latency.P99)}[/]  longest {Shown.Milliseconds(reading.Latency.Longest)}");
        table.AddRow("batching", Batching(reading));
        table.AddRow("window", $"{Bar(totals.Mqtt.InFlightMessages, totals.Mqtt.Window)} {totals.Mqtt.InFlightMessages} of {totals.Mqtt.Window} in flight");
        table.AddRow("buffer", Buffer(totals));
        table.AddRow("trouble", Trouble(totals));
        table.AddRow("publisher", $"{State(connections.PublisherFault)}   [grey]{totals.Mqtt.Connects} connects[/]");
        table.AddRow("subscriber", State(connections.SubscriberFault));
        table.AddRow("health", Health());
        return table;
    }

    private static string Rate(double rate) => $"[bold]{Shown.Count(rate),8}/s[/]";

    private string Batching(HubReading reading) => options.IsBaseline
        ? "none: each change is published by itself and waited for"
        : $"{Shown.Ratio(reading.MessagesPerSend)} messages a send, {Shown.Ratio(reading.MessagesPerBatch)} a batch, {Shown.Count(reading.SendsPerSecond)} sends/s";

    private static string Buffer(HubSnapshot totals) =>
        $"{Bar(totals.Output.BufferedBytes, HubApplication.MaxBufferedBytes)} {Shown.Count(totals.Output.PendingMessages)} messages, "
            + $"{Shown.Megabytes(totals.Output.BufferedBytes)} of {Shown.Megabytes(HubApplication.MaxBufferedBytes)}";

    private static string Trouble(HubSnapshot totals) =>
        $"resent {Marked(totals.Mqtt.ResentMessages, "yellow")}  doubled {Marked(totals.Doubled, "yellow")}  dropped {Marked(totals.Dropped, Bad)}  "
            + $"refused {Marked(totals.Mqtt.RefusedMessages, Bad)}  not made {Marked(totals.Skipped, Bad)}  on the way {Shown.Count(totals.Missing)}";

    private static string Marked(long count, string colour) => count == 0 ? "0" : $"[{colour}]{Shown.Count(count)}[/]";

    private static string State(string? fault) => fault is null ? $"[{Good}]connected[/]" : $"[{Bad}]{Markup.Escape(fault)}[/]";

    private string Health()
    {
        var health = connections.Health;
        return health.Status == HealthStatus.Healthy
            ? $"[{Good}]{health.Status}[/]"
            : $"[{Bad}]{health.Status}[/]: {Markup.Escape(string.Join(' ', health.Reasons))}";
    }

    private static string Bar(long value, long most)
    {
        const int width = 20;
        var full = most <= 0 ? 0 : (int)Math.Clamp(Math.Ceiling((double)value * width / most), 0, width);
        return $"[blue]{new string('█', full)}[/][grey]{new string('░', width - full)}[/]";
    }
}

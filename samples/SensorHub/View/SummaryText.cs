using System.Text;
using SensorHub.Measuring;

namespace SensorHub.View;

/// <summary>The text that the program prints at its end.</summary>
internal static class SummaryText
{
    public static string Of(HubSummary run)
    {
        var (totals, latency) = (run.Whole.Totals, run.Whole.Latency);
        var text = new StringBuilder("\n");
        Add(text, "written", totals.Written, $"{Shown.Count(run.Writing.WrittenPerSecond)}/s");
        Add(text, "acknowledged", totals.Mqtt.AcknowledgedMessages, "");
        Add(text, "arrived", totals.Arrived, $"p50 {Shown.Time(latency.Median)}, p99 {Shown.Time(latency.P99)}, longest {Shown.Time(latency.Longest)}");
        Add(text, "lost", totals.Missing, totals.Missing > 0 ? "acknowledged by the broker and not delivered: see the README" : "");
        Add(text, "doubled", totals.Doubled, "");
        Add(text, "resent", totals.Mqtt.ResentMessages, $"{totals.Mqtt.Connects} connects");
        if (totals.Unacknowledged > 0)
            Add(text, "not acknowledged", totals.Unacknowledged, "dropped, refused, or not sent before the time to stop ended");
        if (totals.Skipped > 0)
            Add(text, "not made", totals.Skipped, "skipped, because the loop was behind");
        return text.ToString();
    }

    private static void Add(StringBuilder text, string name, long count, string remark) =>
        text.AppendLine($"{name,-17}{Shown.Count(count),12}  {remark}".TrimEnd());
}

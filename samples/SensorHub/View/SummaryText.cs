using System.Text;
using SensorHub.Measuring;

namespace SensorHub.View;

/// <summary>What is printed at the end.</summary>
internal static class SummaryText
{
    public static string Of(HubReading run)
    {
        var totals = run.Totals;
        var text = new StringBuilder("\n");
        Add(text, "written", totals.Written, $"{Shown.Count(run.WrittenPerSecond)}/s");
        Add(text, "acknowledged", totals.Mqtt.AcknowledgedMessages, "");
        Add(text, "arrived", totals.Arrived, $"p50 {Shown.Milliseconds(run.Latency.Median)}, p99 {Shown.Milliseconds(run.Latency.P99)}, longest {Shown.Milliseconds(run.Latency.Longest)}");
        Add(text, "lost", totals.Missing, totals.Missing > 0 ? "acknowledged by the broker, and not delivered: see \"What is lost when\" in the README" : "");
        Add(text, "doubled", totals.Doubled, "");
        Add(text, "resent", totals.Mqtt.ResentMessages, $"{totals.Mqtt.Connects} connects");
        if (totals.Unacknowledged > 0)
            Add(text, "not acknowledged", totals.Unacknowledged, "dropped for want of room, refused, or left when the time to stop was over");
        if (totals.Skipped > 0)
            Add(text, "not made", totals.Skipped, "the loop did not get that far: the rate is too high for it");
        return text.ToString();
    }

    private static void Add(StringBuilder text, string name, long count, string remark) =>
        text.AppendLine($"{name,-17}{Shown.Count(count),12}  {remark}".TrimEnd());
}

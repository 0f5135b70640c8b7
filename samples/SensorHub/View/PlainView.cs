using SensorHub.Hosting;
using SensorHub.Measuring;

namespace SensorHub.View;

/// <summary>Prints one line a second and one for each event, for scripts, logs and terminals that cannot move the cursor.</summary>
internal sealed class PlainView(HubOptions options, HubMeter meter, HubConnections connections, HubEventLog events) : IHubView
{
    private static readonly TimeSpan Interval = TimeSpan.FromSeconds(1);

    public async Task ShowAsync(CancellationToken ended)
    {
        Console.WriteLine(Shown.Task(options));
        var (older, position) = (meter.Take(), 0L);
        while (!ended.IsCancellationRequested)
        {
            await Task.Delay(Interval, ended).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            foreach (var happened in events.ReadFrom(ref position))
                Console.WriteLine($"{happened.At:HH:mm:ss} {(happened.IsTrouble ? "! " : "")}{happened.Text}");
            if (ended.IsCancellationRequested)
                return;
            var newer = meter.Take();
            Console.WriteLine(Line(new HubReading(older, newer)));
            older = newer;
        }
    }

    private string Line(HubReading reading)
    {
        var totals = reading.Totals;
        if (totals.Written == 0 && connections.Fault is not null)
            return $"waiting for the broker: {connections.Fault}";
        var batches = options.IsBaseline ? "" : $"  {Shown.Ratio(reading.MessagesPerSend)} a send  {Shown.Count(totals.Output.PendingMessages)} pending";
        return $"{Shown.Clock(totals.At)}  written {Shown.Count(reading.WrittenPerSecond)}/s  arrived {Shown.Count(reading.ArrivedPerSecond)}/s  "
            + $"p50 {Shown.Time(reading.Latency.Median)}  p99 {Shown.Time(reading.Latency.P99)}{batches}  "
            + $"{totals.Mqtt.InFlightMessages} of {totals.Mqtt.Window} in flight  resent {Shown.Count(totals.Mqtt.ResentMessages)}  "
            + $"dropped {Shown.Count(totals.Dropped)}  {connections.Fault ?? "connected"}";
    }
}

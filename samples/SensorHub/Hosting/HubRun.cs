using System.Diagnostics;
using Microsoft.Extensions.Hosting;
using SensorHub.Measuring;
using SensorHub.Publishing;
using SensorHub.View;

namespace SensorHub.Hosting;

/// <summary>One run from end to end: waits for the broker, writes, delivers what is left, and waits for the last arrivals.</summary>
internal sealed class HubRun(
    HubOptions options, HubConnections connections, TickLoop loop, OutputBuffer output, HubMeter meter, HubEventLog events, IHubView view,
    IHostApplicationLifetime lifetime)
{
    private static readonly TimeSpan ArrivalLimit = TimeSpan.FromSeconds(2);
    private static readonly TimeSpan LookAgain = TimeSpan.FromMilliseconds(50);

    /// <exception cref="HubStartException">The broker was not there in time.</exception>
    public async Task<HubSummary> RunAsync()
    {
        using var ended = new CancellationTokenSource();
        var showing = view.ShowAsync(ended.Token);
        try
        {
            var stopping = lifetime.ApplicationStopping;
            await WaitForBrokerAsync(stopping);
            var began = meter.Take();
            await loop.RunAsync(stopping);
            var wrote = meter.Take();
            await DrainAsync();
            await WaitForArrivalsAsync();
            return new HubSummary(new HubReading(began, wrote), new HubReading(began, meter.Take()));
        }
        finally
        {
            await ended.CancelAsync();
            await showing;
        }
    }

    // What is published before the subscription is there does not arrive.
    private async Task WaitForBrokerAsync(CancellationToken stopping)
    {
        var began = Stopwatch.GetTimestamp();
        while (connections.SubscriberFault is { } fault && !stopping.IsCancellationRequested)
        {
            if (Stopwatch.GetElapsedTime(began) > options.Patience)
                throw new HubStartException($"There was no broker within {options.Patience.Value.TotalSeconds} s (--wait): {fault}");
            await Task.Delay(LookAgain, stopping).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
    }

    // Stopping the buffer sends what it holds, within its DrainTimeout. The host would stop the subscriber first, which has yet to count that.
    private async Task DrainAsync()
    {
        events.Add("Stopping: what was written is delivered first.");
        await output.StopAsync(CancellationToken.None);
    }

    // The broker may have acknowledged what it has yet to deliver; it is lost when nothing more comes for a while.
    private async Task WaitForArrivalsAsync()
    {
        var (snapshot, last) = (meter.Take(), Stopwatch.GetTimestamp());
        while (snapshot.Missing > 0 && Stopwatch.GetElapsedTime(last) < ArrivalLimit)
        {
            await Task.Delay(LookAgain);
            var next = meter.Take();
            if (next.Arrived > snapshot.Arrived)
                last = Stopwatch.GetTimestamp();
            snapshot = next;
        }
    }
}

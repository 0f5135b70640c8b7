using System.Diagnostics;
using Microsoft.Extensions.Hosting;
using SensorHub.Measuring;
using SensorHub.Publishing;
using SensorHub.View;

namespace SensorHub.Hosting;

/// <summary>One run: waits for the broker, writes, delivers what is still buffered, and waits for the last arrivals.</summary>
internal sealed class HubRun(
    HubOptions options, HubConnections connections, TickLoop loop, OutputBuffer output, HubMeter meter, SampleLog events, IView view,
    IHostApplicationLifetime lifetime)
{
    private static readonly TimeSpan ArrivalLimit = TimeSpan.FromSeconds(2);
    private static readonly TimeSpan LookAgain = TimeSpan.FromMilliseconds(50);

    /// <exception cref="StartException">The broker was not available in time.</exception>
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

    // The subscriber does not get what is published before it has subscribed.
    private async Task WaitForBrokerAsync(CancellationToken stopping)
    {
        var began = Stopwatch.GetTimestamp();
        while (connections.SubscriberFault is { } fault && !stopping.IsCancellationRequested)
        {
            if (Stopwatch.GetElapsedTime(began) > options.Patience)
                throw new StartException($"The broker was not available within {options.Patience.Value.TotalSeconds} s (--wait): {fault}");
            await Task.Delay(LookAgain, stopping).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
    }

    // Stopping the buffer sends what it holds, within its DrainTimeout. The host would stop the subscriber first, which must still count those messages.
    private async Task DrainAsync()
    {
        events.Add("Stopping. The hub delivers what was written first.");
        await output.StopAsync(CancellationToken.None);
    }

    // The broker may have acknowledged messages that it has not delivered yet. They count as lost when nothing arrives for a while.
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

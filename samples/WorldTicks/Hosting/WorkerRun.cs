using Microsoft.Extensions.Hosting;
using WorldTicks.View;
using WorldTicks.Working;

namespace WorldTicks.Hosting;

/// <summary>The run of a worker: runs tasks until it is stopped, and gives back those that it has not begun.</summary>
internal sealed class WorkerRun(TicksOptions options, WorkerMeter meter, IView view, IHostApplicationLifetime lifetime) : ITicksRun
{
    public async Task<int> RunAsync(IHost host)
    {
        using var ended = new CancellationTokenSource();
        var showing = view.ShowAsync(ended.Token);
        try
        {
            await Task.Delay(Timeout.InfiniteTimeSpan, lifetime.ApplicationStopping).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            await host.StopAsync();
        }
        finally
        {
            await ended.CancelAsync();
            await showing;
        }

        await Console.Out.WriteAsync(SummaryText.Of(options.WorkerName, meter.Take()));
        return 0;
    }
}

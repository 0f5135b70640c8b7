using System.Diagnostics;
using Microsoft.Extensions.Hosting;
using WorldTicks.Measuring;
using WorldTicks.View;
using WorldTicks.World;

namespace WorldTicks.Hosting;

/// <summary>The run of a world: ticks, delivers what is buffered, waits for open tasks, and prints its account.</summary>
internal sealed class WorldRun(
    TicksOptions options, TickLoop loop, OutputBuffer output, WorldMeter meter, WorldWatch watch, SampleLog events, IView view, IHostApplicationLifetime lifetime) : ITicksRun
{
    private static readonly TimeSpan LookAgain = TimeSpan.FromMilliseconds(50);
    private static readonly TimeSpan LastLookLimit = TimeSpan.FromSeconds(10);

    public async Task<int> RunAsync(IHost host)
    {
        using var ended = new CancellationTokenSource();
        var showing = view.ShowAsync(ended.Token);
        WorldReading whole;
        try
        {
            await loop.RunAsync(lifetime.ApplicationStopping);
            events.Add("Stopping. The world delivers what was written, then waits for open tasks.");
            await output.StopAsync(CancellationToken.None);
            await WaitForWorkersAsync();
            // A worker in this process gives back the tasks that it holds. Only after that is the account complete.
            await host.StopAsync();
            whole = await CloseAccountAsync();
        }
        finally
        {
            await ended.CancelAsync();
            await showing;
        }

        await Console.Out.WriteAsync(SummaryText.Of(whole));
        return whole.Totals.Balance.Lost > 0 ? TicksProgram.Lost : 0;
    }

    private async Task WaitForWorkersAsync()
    {
        var (began, looked) = (Stopwatch.GetTimestamp(), watch.Reading);
        var isFresh = false;
        while (!(isFresh && watch.Reading.Totals is { Open: 0, Fault: null }) && Stopwatch.GetElapsedTime(began) < options.FinishLimit)
        {
            await Task.Delay(LookAgain);
            // The first reading may have begun before the last task was in the queue.
            isFresh |= watch.Reading != looked && watch.Reading.Totals.Buffered == 0;
        }
    }

    private async Task<WorldReading> CloseAccountAsync()
    {
        using var limit = new CancellationTokenSource(LastLookLimit);
        WorldSnapshot last;
        try
        {
            last = await meter.TakeAsync(limit.Token);
        }
        catch (OperationCanceledException)
        {
            last = watch.Reading.Totals with { Fault = $"PostgreSQL at {options.Address} does not answer." };
        }

        return new WorldReading(new WorldSnapshot { At = TimeSpan.Zero }, last);
    }
}

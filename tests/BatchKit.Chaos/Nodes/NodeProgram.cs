using System.Runtime.InteropServices;
using BatchKit.Chaos.Histories;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.Chaos.Nodes;

/// <summary>One process of the run: receives, and writes what its settings name, until it is told to end (SIGTERM).</summary>
internal static class NodeProgram
{
    // A service manager's pause.
    private static readonly TimeSpan StartPause = TimeSpan.FromMilliseconds(500);

    private static readonly TimeSpan ReceivePause = TimeSpan.FromMilliseconds(50);

    public static async Task<int> RunAsync(NodeSettings settings)
    {
        using var told = new CancellationTokenSource();
        using var terminated = PosixSignalRegistration.Create(PosixSignal.SIGTERM, context =>
        {
            context.Cancel = true;
            told.Cancel();
        });

        using var history = new HistoryWriter(settings.HistoryPath);
        using var control = NodeControl.Open(settings.ControlPath);
        using var host = await StartAsync(settings, new JumpingClock(control), new ArrivalRecorder(history), told.Token);
        if (host is null)
            return 0;
        // The run begins when its first processes receive: output for a group does not reach a node whose queue was never bound. Later processes start in the middle of faults.
        while (settings.Version == 1 && !told.IsCancellationRequested && NodeHost.FindFault(settings, host.Services) is not null)
            await Task.Delay(ReceivePause, told.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        history.Write(now => new Started(now));
        var output = host.Services.GetRequiredService<OutputBuffer>();
        var writing = Task.Run(() => new NodeWriter(output, settings, control, history).RunAsync(told.Token), CancellationToken.None);
        await Task.Delay(Timeout.Infinite, told.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);

        await host.StopAsync(CancellationToken.None);
        await writing;
        history.Write(now => new Ended(now, Read(output.GetStatistics()), NodeHost.ReadInput(settings, host.Services)));
        return 0;
    }

    /// <summary>Starts a host, again and again as a service manager does when the start fails, because another process still has the node's number.</summary>
    private static async Task<IHost?> StartAsync(NodeSettings settings, TimeProvider clock, ArrivalRecorder recorder, CancellationToken told)
    {
        while (!told.IsCancellationRequested)
        {
            var host = NodeHost.Build(settings, clock, recorder);
            try
            {
                await host.StartAsync(told);
                return host;
            }
            catch (Exception exception) when (exception is not OutOfMemoryException)
            {
                await Console.Out.WriteLineAsync($"The start failed: {exception}");
                await ((IAsyncDisposable)host).DisposeAsync();
            }

            await Task.Delay(StartPause, told).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }

        return null;
    }

    private static long[] Read(OutputStatistics statistics) =>
        [statistics.AcceptedMessages, statistics.AcknowledgedMessages, statistics.FailedMessages, statistics.DroppedMessages, statistics.PendingMessages];
}

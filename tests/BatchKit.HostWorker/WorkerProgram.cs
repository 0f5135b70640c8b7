using BatchKit.TestServers.HostWorker;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace BatchKit.HostWorker;

/// <summary>A host with a buffer and a service that writes, which runs until it is told to end (SIGTERM) and then says what became of the messages.</summary>
internal static class WorkerProgram
{
    public static async Task<int> RunAsync(HostWorkerSettings settings)
    {
        var application = Host.CreateApplicationBuilder();
        application.Logging.SetMinimumLevel(LogLevel.Warning);
        application.Services.Configure<HostOptions>(options => (options.ServicesStopConcurrently, options.ShutdownTimeout) = (settings.StopsConcurrently, settings.ShutdownTimeout));
        application.Services.AddSingleton(settings);
        application.Services.AddBatchKit(options => (options.Node, options.DrainTimeout) = (HostWorkerSettings.Node, settings.DrainTimeout)).SendTo(settings.Path, HostWorkerSettings.FarNode);
        application.Services.AddHostedService<LineWriter>();
        using var host = application.Build();
        await host.StartAsync();
        await host.WaitForShutdownAsync();

        var statistics = host.Services.GetRequiredService<OutputBuffer>().GetStatistics();
        await Console.Out.WriteLineAsync($"accepted {statistics.AcceptedMessages}");
        await Console.Out.WriteLineAsync($"acknowledged {statistics.AcknowledgedMessages}");
        await Console.Out.WriteLineAsync($"failed {statistics.FailedMessages}");
        await Console.Out.WriteLineAsync($"dropped {statistics.DroppedMessages}");
        await Console.Out.WriteLineAsync($"pending {statistics.PendingMessages}");
        return 0;
    }
}

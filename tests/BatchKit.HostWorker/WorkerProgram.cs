using System.Text;
using BatchKit.TestServers.HostWorker;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace BatchKit.HostWorker;

/// <summary>Writes what arrives to the console.</summary>
internal sealed class ConsoleTransport : IBatchTransport
{
    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        foreach (var batch in batches.ToArray())
        {
            for (var message = 0; message < batch.Count; message++)
                await Console.Out.WriteLineAsync($"received {Encoding.UTF8.GetString(batch[message].Payload.Span)}");
        }
    }
}

/// <summary>A host with a buffer and a service that writes, which runs until it is told to end (SIGTERM) and then says what became of the messages.</summary>
internal static class WorkerProgram
{
    public static async Task<int> RunAsync(HostWorkerSettings settings)
    {
        var application = Host.CreateApplicationBuilder();
        application.Logging.SetMinimumLevel(LogLevel.Warning);
        application.Services.Configure<HostOptions>(options => (options.ServicesStopConcurrently, options.ShutdownTimeout) = (settings.StopsConcurrently, settings.ShutdownTimeout));
        application.Services.AddSingleton(settings);
        var buffer = application.Services.AddBatchKit(options => (options.Node, options.DrainTimeout) = (HostWorkerSettings.Node, settings.DrainTimeout)).SendTo(settings.Path, HostWorkerSettings.FarNode);
        if (settings.Receives)
            buffer.ReceiveFrom(settings.Path, HostWorkerSettings.Node, static _ => new ConsoleTransport());
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

using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using SensorHub.View;

namespace SensorHub.Hosting;

/// <summary>The program: reads the options, runs the hub until it is stopped, and prints its summary.</summary>
internal static class HubProgram
{
    public static Task<int> RunAsync(string[] arguments) => SampleProgram.RunAsync(arguments, HubHelp.Text, async () =>
    {
        using var host = HubApplication.Build(HubSettings.Read(arguments, Environment.GetEnvironmentVariable));
        await host.StartAsync();
        var summary = await host.Services.GetRequiredService<HubRun>().RunAsync();
        await host.StopAsync();
        await Console.Out.WriteAsync(SummaryText.Of(summary));
        return 0;
    });
}

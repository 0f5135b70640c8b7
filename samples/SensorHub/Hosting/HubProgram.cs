using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Options;
using SensorHub.View;

namespace SensorHub.Hosting;

/// <summary>The program: reads the options, runs the hub until it is stopped, and prints errors.</summary>
internal static class HubProgram
{
    private const int StartFailed = 1;
    private const int UsageError = 2;

    public static async Task<int> RunAsync(string[] arguments)
    {
        if (arguments.Any(argument => argument is "--help" or "-h" or "-?"))
        {
            await Console.Out.WriteAsync(HubHelp.Text);
            return 0;
        }

        try
        {
            using var host = HubApplication.Build(HubOptionsReader.Read(arguments, Environment.GetEnvironmentVariable));
            await host.StartAsync();
            var summary = await host.Services.GetRequiredService<HubRun>().RunAsync();
            await host.StopAsync();
            await Console.Out.WriteAsync(SummaryText.Of(summary));
            return 0;
        }
        catch (Exception exception) when (exception is UsageException or OptionsValidationException)
        {
            await Console.Error.WriteLineAsync($"{exception.Message}\nSee --help.");
            return UsageError;
        }
        catch (StartException exception)
        {
            await Console.Error.WriteLineAsync(exception.Message);
            return StartFailed;
        }
    }
}

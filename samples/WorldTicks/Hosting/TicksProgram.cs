using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Options;

namespace WorldTicks.Hosting;

/// <summary>The program: reads the options, runs until it is stopped, and prints errors.</summary>
internal static class TicksProgram
{
    /// <summary>The exit code when tasks were lost.</summary>
    public const int Lost = 3;

    private const int StartFailed = 1;
    private const int UsageError = 2;

    public static async Task<int> RunAsync(string[] arguments)
    {
        if (arguments.Any(argument => argument is "--help" or "-h" or "-?"))
        {
            await Console.Out.WriteAsync(TicksHelp.Text);
            return 0;
        }

        try
        {
            using var host = TicksApplication.Build(TicksOptionsReader.Read(arguments, Environment.GetEnvironmentVariable));
            await host.Services.GetRequiredService<TicksServer>().PrepareAsync(CancellationToken.None);
            await host.StartAsync();
            return await host.Services.GetRequiredService<ITicksRun>().RunAsync(host);
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

using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace WorldTicks.Hosting;

/// <summary>The program: reads the options, and runs until it is stopped.</summary>
internal static class TicksProgram
{
    /// <summary>The exit code when tasks were lost.</summary>
    public const int Lost = 3;

    public static Task<int> RunAsync(string[] arguments) => SampleProgram.RunAsync(arguments, TicksHelp.Text, async () =>
    {
        using var host = TicksApplication.Build(TicksOptionsReader.Read(arguments, Environment.GetEnvironmentVariable));
        await host.Services.GetRequiredService<TicksServer>().PrepareAsync(CancellationToken.None);
        await host.StartAsync();
        return await host.Services.GetRequiredService<ITicksRun>().RunAsync(host);
    });
}

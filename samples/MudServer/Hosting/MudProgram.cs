using BatchKit.Broadcast;

namespace MudServer.Hosting;

/// <summary>The program: reads the options, and runs the server until it is stopped.</summary>
internal static class MudProgram
{
    public static Task<int> RunAsync(string[] arguments) => SampleProgram.RunAsync(arguments, MudHelp.Text, async () =>
    {
        await using var application = MudApplication.Build(arguments);
        await MudApplication.StartAsync(application);
        await Console.Out.WriteLineAsync(Describe(application));
        await application.WaitForShutdownAsync();
        return 0;
    });

    private static string Describe(WebApplication application)
    {
        var options = application.Services.GetRequiredService<MudOptions>();
        var lines = new List<string>
        {
            $"Lantern Isle is up: role {MudSettings.Word(options.Role)}, transport {MudSettings.Word(options.Transport)}, "
                + $"buffering {(options.IsBuffered ? "on" : "off")}, node {options.Node}.",
            $"  Output:   over {options.Hop}",
        };
        if (application.Services.GetKeyedService<BroadcastListener>(MudBuffers.Input) is { EndPoint: var telnet })
            lines.Add($"  Play:     telnet {telnet.Address} {telnet.Port}  or  {application.Urls.First()}/");
        lines.Add($"  Counters: {application.Urls.First()}/stats  and  /health");
        lines.Add("  Ctrl-C ends it.");
        return string.Join(Environment.NewLine, lines);
    }
}

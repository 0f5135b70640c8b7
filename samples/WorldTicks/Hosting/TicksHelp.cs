namespace WorldTicks.Hosting;

/// <summary>The text that <c>--help</c> shows.</summary>
internal static class TicksHelp
{
    public static string Text => $"""
        WorldTicks: a game world puts the tasks of its NPCs and its weather into a queue in PostgreSQL each tick,
        workers in as many processes as you like run them, and the terminal shows that none is lost.

          dotnet run --configuration Release --project samples/WorldTicks                world and worker in one process
          dotnet run --configuration Release --project samples/WorldTicks -- world       the world
          dotnet run --configuration Release --project samples/WorldTicks -- worker      a worker; start several

        {Describe(TicksSettings.OfBoth)}
          --help                   Shows this.

        Only for the world:
        {Describe(TicksSettings.OfWorld)}

        Only for a worker:
        {Describe(TicksSettings.OfWorker)}

        Each can also be set in the environment (--connection as WORLDTICKS_CONNECTION, --plain as WORLDTICKS_PLAIN=on);
        the command line takes precedence. Ctrl-C ends it: the world waits for open tasks and prints its account, and a
        worker gives back the tasks that it has not begun.

        """;

    private static string Describe(IEnumerable<Setting<TicksOptions>> settings) =>
        string.Join(Environment.NewLine, settings.Select(setting => $"  {setting.Argument + " " + setting.Values,-24} {setting.Summary}"));
}

namespace MudServer.Hosting;

/// <summary>The text that <c>--help</c> shows.</summary>
internal static class MudHelp
{
    public static string Text
    {
        get
        {
            var settings = MudSettings.All.Select(setting => $"  {setting.Argument + " " + setting.Values,-47} {setting.Summary}");
            return $"""
                Lantern Isle: a small MUD on BatchKit. Without arguments it runs in one process, simulates a broker,
                listens for telnet on 127.0.0.1:4201, and has a page to play on at http://127.0.0.1:4202/.

                  dotnet run --project samples/MudServer
                  dotnet run --project samples/MudServer -- --transport rabbitmq --rabbitmq amqp://guest:guest@localhost:5672/
                  dotnet run --project samples/MudServer -- --role game      and, in another terminal,  --role gateway

                {string.Join(Environment.NewLine, settings)}
                  --help                                          Shows this.

                Each can also be set in the environment (--http-port as MUD_HTTP_PORT) or in appsettings.json ("HttpPort").
                The command line takes precedence, then the environment.

                """;
        }
    }
}

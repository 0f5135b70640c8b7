namespace SensorHub.Hosting;

/// <summary>The text that <c>--help</c> shows.</summary>
internal static class HubHelp
{
    public static string Text
    {
        get
        {
            var settings = HubSettings.All.Select(setting => $"  {setting.Argument + " " + setting.Values,-27} {setting.Summary}");
            return $"""
                SensorHub: the rooms and items of a game world publish 20,000 property changes a second over MQTT,
                a second connection subscribes to them, and the terminal shows how long they take.

                  dotnet run --configuration Release --project samples/SensorHub
                  dotnet run --configuration Release --project samples/SensorHub -- --server mqtts://broker.example --user game --qos 0
                  dotnet run --configuration Release --project samples/SensorHub -- --baseline

                {string.Join(Environment.NewLine, settings)}
                  --help                      Shows this.

                Each can also be set in the environment (--password as SENSORHUB_PASSWORD, --plain as SENSORHUB_PLAIN=on);
                the command line takes precedence. Ctrl-C ends it: it first delivers what was written, then prints a summary.

                """;
        }
    }
}

using System.Text;
using Npgsql;
using static Shared.SettingValue;

namespace WorldTicks.Hosting;

/// <summary>The settings of both roles, and those of one, in the order of the help.</summary>
internal static class TicksSettings
{
    // PostgreSQL's limit for identifiers.
    private const int MaxSchemaBytes = 63;

    public static IReadOnlyList<Setting<TicksOptions>> OfBoth { get; } =
    [
        new("connection", "<string>", "The connection string of PostgreSQL; \"Host=localhost;Username=postgres\" by default. Set one with a password in the environment.",
            (options, value) => options.Connection = Connection(value), IsSecret: true),
        new("schema", "<name>", "The schema of all tables, which is created if it is missing; worldticks by default.", (options, value) => options.Schema = Schema(value)),
        new("wait", "<seconds>", "How long to wait for the server at the start; 0 by default.", (options, value) => options.Patience = Seconds(value, 0)),
        new("plain", "", "Prints one line a second instead of the live view, as it also does when the output is not a terminal.", (options, value) => options.IsPlain = Switch(value)),
    ];

    public static IReadOnlyList<Setting<TicksOptions>> OfWorld { get; } =
    [
        new("tick", "<ms>", "The time between two ticks; 250 by default.", (options, value) => options.Tick = Milliseconds(value, 10)),
        new("npcs", "<number>", "The number of NPCs, each with one task a tick; 200 by default.", (options, value) => options.Npcs = Number(value, 0, 100_000)),
        new("regions", "<number>", "The number of regions, each with one step of its weather a tick; 12 by default.", (options, value) => options.Regions = Number(value, 0, 10_000)),
        new("poison", "<number>", "One in this number of NPC tasks always fails, and ends in the dead table; 2000 by default, 0 for none.",
            (options, value) => options.PoisonedOneIn = Number(value, 0, 1_000_000_000)),
        new("seconds", "<number>", "Stops ticking and ends after this many seconds; runs until Ctrl-C by default.", (options, value) => options.Duration = Seconds(value, 1)),
        new("finish", "<seconds>", "How long to wait for open tasks at the end; 10 by default.", (options, value) => options.FinishLimit = Seconds(value, 0)),
    ];

    public static IReadOnlyList<Setting<TicksOptions>> OfWorker { get; } =
    [
        new("concurrency", "<number>", "The most batches of a queue that a worker runs at once; 8 by default.", (options, value) => options.Concurrency = Number(value, 1, 100)),
        new("batch", "<number>", "The most tasks in a batch; 50 by default.", (options, value) => options.BatchSize = Number(value, 1, 10_000)),
        new("handler-time", "<ms>", "How long a task takes; 2 by default.", (options, value) => options.HandlerTime = Milliseconds(value, 0)),
        new("claim-limit", "<seconds>", "The time after which other workers take the tasks of a dead worker; 5 by default.",
            (options, value) => options.ClaimTimeLimit = Seconds(value, 1)),
        new("name", "<name>", "The name of this worker in the world's view; machine and process number by default.", (options, value) => options.WorkerName = Text(value)),
    ];

    public static IReadOnlyList<Setting<TicksOptions>> All { get; } = For(TicksRole.Both);

    /// <summary>The settings that a process with this role has.</summary>
    public static IReadOnlyList<Setting<TicksOptions>> For(TicksRole role) =>
        [.. OfBoth, .. role.HasFlag(TicksRole.World) ? OfWorld : [], .. role.HasFlag(TicksRole.Worker) ? OfWorker : []];

    private static NpgsqlConnectionStringBuilder Connection(string value)
    {
        try
        {
            var connection = new NpgsqlConnectionStringBuilder(value);
            return connection.Host is null ? throw new FormatException("needs a host") : connection;
        }
        catch (Exception exception) when (exception is ArgumentException or FormatException)
        {
            throw new FormatException("takes a connection string such as \"Host=localhost;Username=postgres;Database=game\"", exception);
        }
    }

    private static string Schema(string value) =>
        value.Length > 0 && Encoding.UTF8.GetByteCount(value) <= MaxSchemaBytes ? value : throw new FormatException($"takes a name of 1 to {MaxSchemaBytes} bytes");

    private static TimeSpan Seconds(string value, int least) => TimeSpan.FromSeconds(Number(value, least, 86_400));

    private static TimeSpan Milliseconds(string value, int least) => TimeSpan.FromMilliseconds(Number(value, least, 60_000));
}

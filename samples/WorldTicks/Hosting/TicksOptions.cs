using Npgsql;

namespace WorldTicks.Hosting;

/// <summary>The options of one run of the program.</summary>
internal sealed class TicksOptions
{
    public TicksRole Role { get; set; } = TicksRole.Both;

    public NpgsqlConnectionStringBuilder Connection { get; set; } = new() { Host = "localhost", Username = "postgres" };

    public string Schema { get; set; } = "worldticks";

    /// <summary>How long to wait for the server at the start.</summary>
    public TimeSpan Patience { get; set; }

    public bool IsPlain { get; set; }

    public TimeSpan Tick { get; set; } = TimeSpan.FromMilliseconds(250);

    public int Npcs { get; set; } = 200;

    public int Regions { get; set; } = 12;

    /// <summary>One in this number of NPC tasks always fails; 0 for none.</summary>
    public int PoisonedOneIn { get; set; } = 2000;

    /// <summary>How long the world ticks; null to tick until the program is stopped.</summary>
    public TimeSpan? Duration { get; set; }

    /// <summary>How long the world waits at its end for open tasks.</summary>
    public TimeSpan FinishLimit { get; set; } = TimeSpan.FromSeconds(10);

    public string WorkerName { get; set; } = $"{Environment.MachineName}-{Environment.ProcessId}";

    public int Concurrency { get; set; } = 8;

    public int BatchSize { get; set; } = 50;

    public TimeSpan HandlerTime { get; set; } = TimeSpan.FromMilliseconds(2);

    public TimeSpan ClaimTimeLimit { get; set; } = TimeSpan.FromSeconds(5);

    public bool IsWorld => Role.HasFlag(TicksRole.World);

    public bool IsWorker => Role.HasFlag(TicksRole.Worker);

    /// <summary>The address of the server, without secrets.</summary>
    public string Address => $"{Connection.Host}:{Connection.Port}";
}

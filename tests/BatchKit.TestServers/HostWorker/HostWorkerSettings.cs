using System.Text.Json;

namespace BatchKit.TestServers.HostWorker;

/// <summary>What a host's process should do; it travels as its one argument.</summary>
public sealed record HostWorkerSettings
{
    /// <summary>Its node.</summary>
    public const int Node = 1;

    /// <summary>The node that it writes for.</summary>
    public const int FarNode = 2;

    /// <summary>How many connections there it writes for, beside a group.</summary>
    public const int Connections = 3;

    /// <summary>The broker.</summary>
    public required BrokerPath Path { get; init; }

    /// <summary>The sequence of the first connection that it writes for; the others follow.</summary>
    public required long FirstConnection { get; init; }

    /// <summary>The group that it writes for.</summary>
    public required string Group { get; init; }

    /// <summary>How many lines it writes.</summary>
    public required int Messages { get; init; }

    /// <summary>After how many of them it says that it writes.</summary>
    public required int AnnouncedMessages { get; init; }

    /// <summary>How long its stop may take to send what is pending.</summary>
    public required TimeSpan DrainTimeout { get; init; }

    /// <summary>How long the host waits for its services to stop. On a busy machine the writer may need minutes for its last lines.</summary>
    public required TimeSpan ShutdownTimeout { get; init; }

    /// <summary>Whether the host stops its services at the same time; by default one after another.</summary>
    public bool StopsConcurrently { get; init; }

    /// <summary>Whether it also receives for its node, and writes what arrives there.</summary>
    public bool Receives { get; init; }

    /// <summary>Reads a process's arguments.</summary>
    public static HostWorkerSettings Parse(IReadOnlyList<string> arguments) =>
        arguments is [var settings] && JsonSerializer.Deserialize<HostWorkerSettings>(settings) is { } parsed
            ? parsed
            : throw new ArgumentException("A host takes one argument, its settings as JSON.", nameof(arguments));

    internal string ToArgument() => JsonSerializer.Serialize(this);
}

/// <summary>A broker, and what no other test uses there.</summary>
/// <param name="Transport">One of the constants here.</param>
/// <param name="Address">Its address with its user, or the connection string of the database.</param>
/// <param name="Name">The prefix of the topology or of the topics, or the schema.</param>
public sealed record BrokerPath(string Transport, string Address, string Name)
{
    /// <summary>The heartbeat or keep-alive of connections to RabbitMQ or MQTT; null for the package's own.</summary>
    public TimeSpan? KeepAlive { get; init; }

    /// <summary>RabbitMQ.</summary>
    public const string RabbitMq = "RabbitMQ";

    /// <summary>RabbitMQ over MassTransit.</summary>
    public const string MassTransit = "MassTransit";

    /// <summary>MQTT in envelope mode.</summary>
    public const string Mqtt = "MQTT";

    /// <summary>A JetStream of NATS.</summary>
    public const string Nats = "NATS";

    /// <summary>A queue of frames in PostgreSQL for each node.</summary>
    public const string PostgreSql = "PostgreSQL";
}

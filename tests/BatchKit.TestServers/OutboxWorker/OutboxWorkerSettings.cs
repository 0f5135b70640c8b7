using System.Globalization;

namespace BatchKit.TestServers.OutboxWorker;

/// <summary>What an outbox's process is to do; on its command line.</summary>
/// <param name="Database">The connection string of the database.</param>
/// <param name="Schema">The schema.</param>
/// <param name="Broker">The RabbitMQ to send on to.</param>
/// <param name="Prefix">The prefix of its topology.</param>
/// <param name="Lines">How many lines to store for <see cref="Connection"/>, through a buffer.</param>
public sealed record OutboxWorkerSettings(string Database, string Schema, Uri Broker, string Prefix, int Lines)
{
    /// <summary>The node that receives.</summary>
    public const int Node = 1;

    /// <summary>The connection there that the lines are for.</summary>
    public const int Connection = 17;

    /// <summary>How long a killed process keeps the others from sending on.</summary>
    public static TimeSpan ClaimTimeLimit { get; } = TimeSpan.FromSeconds(2);

    /// <summary>Reads what <see cref="ToArguments"/> wrote.</summary>
    public static OutboxWorkerSettings Parse(string[] arguments)
    {
        ArgumentNullException.ThrowIfNull(arguments);
        return new(arguments[0], arguments[1], new Uri(arguments[2]), arguments[3], int.Parse(arguments[4], CultureInfo.InvariantCulture));
    }

    /// <summary>As arguments of a program.</summary>
    public string[] ToArguments() => [Database, Schema, Broker.ToString(), Prefix, Lines.ToString(CultureInfo.InvariantCulture)];
}

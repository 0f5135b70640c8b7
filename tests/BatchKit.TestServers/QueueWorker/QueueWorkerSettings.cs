using System.Text.Json;

namespace BatchKit.TestServers.QueueWorker;

/// <summary>What a worker process should do; it travels as its one argument.</summary>
public sealed record QueueWorkerSettings
{
    /// <summary>The database. Its pool must have room for <see cref="Concurrency"/> + 2 connections, twice.</summary>
    public required string ConnectionString { get; init; }

    /// <summary>The schema of the queue.</summary>
    public required string Schema { get; init; }

    /// <summary>The queue.</summary>
    public required string Queue { get; init; }

    /// <summary>The table that handlings are written to, quoted and with its schema: number, id, attempt, key, process. The number is what a message's payload begins with.</summary>
    public required string Table { get; init; }

    /// <summary>The queue's shards; 0, the default, for one without order.</summary>
    public int Shards { get; init; }

    /// <summary>Batches at once; 1 by default.</summary>
    public int Concurrency { get; init; } = 1;

    /// <summary>The most messages in a batch; 100 by default.</summary>
    public int BatchSize { get; init; } = 100;

    /// <summary>Messages held ready; 0 by default.</summary>
    public int Prefetch { get; init; }

    /// <summary>How long a claim lasts; 2 s by default.</summary>
    public TimeSpan ClaimTimeLimit { get; init; } = TimeSpan.FromSeconds(2);

    /// <summary>How often it looks for work and for ended claims; 1 s by default, as the library has it.</summary>
    public TimeSpan PollInterval { get; init; } = TimeSpan.FromSeconds(1);

    /// <summary>How often a message is handled; 1000 by default, so that being killed with it again and again does not bury it.</summary>
    public int MaxAttempts { get; init; } = 1000;

    /// <summary>The pause before a failed message is handled again; none by default.</summary>
    public TimeSpan RetryDelay { get; init; }

    /// <summary>How long a batch is handled, after it was written down; no time by default.</summary>
    public TimeSpan HandlerTime { get; init; }

    /// <summary>Messages whose number this divides fail at their first attempt; 0, the default, for none.</summary>
    public int FailEvery { get; init; }

    /// <summary>Whether a message that has failed too often blocks its key, in an ordered queue; buried by default.</summary>
    public bool Blocks { get; init; }

    /// <summary>Reads a worker's arguments.</summary>
    public static QueueWorkerSettings Parse(IReadOnlyList<string> arguments) =>
        arguments is [var settings] && JsonSerializer.Deserialize<QueueWorkerSettings>(settings) is { } parsed
            ? parsed
            : throw new ArgumentException("A worker takes one argument, its settings as JSON.", nameof(arguments));

    internal string ToArgument() => JsonSerializer.Serialize(this);
}

using System.Text.Json.Serialization;
using BatchKit.Postgres;
using BatchKit.Tool.Output;

namespace BatchKit.Tool.Json;

/// <summary>Writes the tool's JSON, in generated code.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase, WriteIndented = true)]
[JsonSerializable(typeof(CountsJson[]))]
[JsonSerializable(typeof(DeadJson[]))]
[JsonSerializable(typeof(ReplayedJson))]
[JsonSerializable(typeof(DeletedJson))]
internal sealed partial class ToolJson : JsonSerializerContext;

/// <summary>A queue's counts. The names are a contract with scripts.</summary>
internal sealed record CountsJson(string Queue, int Shards, long Ready, long Delayed, long Claimed, long Dead, double? OldestAgeSeconds)
{
    public static CountsJson From(QueueCounts counts) =>
        new(counts.Queue, counts.Shards, counts.Ready, counts.Delayed, counts.Claimed, counts.Dead, counts.OldestAge?.TotalSeconds);
}

/// <summary>A dead message, whole. The names are a contract with scripts.</summary>
/// <param name="Id">Its number.</param>
/// <param name="Key">Its key; null when it has none.</param>
/// <param name="Attempts">How often it was handled.</param>
/// <param name="Error">What was said of its last attempt.</param>
/// <param name="EnqueuedAt">When it was enqueued.</param>
/// <param name="DiedAt">When it was given up.</param>
/// <param name="Payload">Its bytes, in base 64.</param>
/// <param name="Text">Its bytes as a text; null when they are none.</param>
internal sealed record DeadJson(long Id, string? Key, int Attempts, string Error, DateTimeOffset EnqueuedAt, DateTimeOffset DiedAt, byte[] Payload, string? Text)
{
    public static DeadJson From(DeadMessage message) => new(
        message.Id, message.Key, message.Attempts, message.Error, message.EnqueuedAt, message.DiedAt, message.Payload.ToArray(),
        PrintableText.TryRead(message.Payload.Span, isCut: false));
}

/// <summary>How many messages came back. The names are a contract with scripts.</summary>
internal sealed record ReplayedJson(string Queue, long Replayed);

/// <summary>How many messages were deleted. The names are a contract with scripts.</summary>
internal sealed record DeletedJson(string Queue, long Deleted);

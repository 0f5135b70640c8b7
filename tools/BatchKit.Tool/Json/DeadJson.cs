using BatchKit.Postgres;
using BatchKit.Tool.Output;

namespace BatchKit.Tool.Json;

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

using System.Text;

namespace BatchKit.Postgres.Schema;

/// <summary>What names the tables take, and the sentences for those they don't.</summary>
internal static class QueueLimits
{
    /// <summary>The longest identifier of PostgreSQL, in bytes: NAMEDATALEN - 1 (manual, section 4.1.1). It cuts longer ones in silence, so they are refused here.</summary>
    public const int MaxSchemaBytes = 63;

    /// <summary>The longest queue name and uniqueness key, in bytes: both are in an index, whose entries have at most 2,704.</summary>
    public const int MaxNameBytes = 1024;

    public const int MaxShards = 1024;

    // Throws instead of replacing half a surrogate pair, which PostgreSQL would not take.
    private static readonly UTF8Encoding Strict = new(encoderShouldEmitUTF8Identifier: false, throwOnInvalidBytes: true);

    /// <summary>Why a schema may not have that name, as the rest of a sentence; null when it may.</summary>
    public static string? RefuseSchema(string? name) => Refuse(name, MaxSchemaBytes);

    /// <summary>Why a queue may not have that name, or a message that uniqueness key; null when it may.</summary>
    public static string? RefuseQueue(string? name) => Refuse(name, MaxNameBytes);

    /// <summary>Why a message may not have that key, as the rest of a sentence; null when it may.</summary>
    public static string? RefuseKey(string? key) => Refuse(key, MessageHeader.MaxTextBytes);

    /// <exception cref="ArgumentException">A schema may not have that name.</exception>
    public static void ThrowIfNoSchema(string schema)
    {
        ArgumentNullException.ThrowIfNull(schema);
        if (RefuseSchema(schema) is { } reason)
            throw new ArgumentException($"The schema's name {reason}", nameof(schema));
    }

    private static string? Refuse(string? name, int maxBytes)
    {
        if (string.IsNullOrEmpty(name))
            return "must not be empty.";
        if (name.Contains('\0', StringComparison.Ordinal))
            return "must not contain the character NUL, which PostgreSQL does not store.";
        try
        {
            var bytes = Strict.GetByteCount(name);
            return bytes > maxBytes ? $"has {bytes} UTF-8 bytes, more than {maxBytes}." : null;
        }
        catch (EncoderFallbackException)
        {
            return "is not valid Unicode: it has half of a surrogate pair.";
        }
    }
}

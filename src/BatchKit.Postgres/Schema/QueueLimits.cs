using System.Text;

namespace BatchKit.Postgres.Schema;

/// <summary>The limits of names and keys, and the error texts for those that the tables can't store.</summary>
internal static class QueueLimits
{
    /// <summary>The longest identifier of PostgreSQL, in bytes: NAMEDATALEN - 1 (manual, section 4.1.1). It silently truncates longer ones, so they are rejected here.</summary>
    public const int MaxSchemaBytes = 63;

    /// <summary>The longest queue name and uniqueness key, in bytes. Both are indexed, and an index entry has at most 2,704 bytes.</summary>
    public const int MaxNameBytes = 1024;

    public const int MaxShards = 1024;

    // Throws for half of a surrogate pair, which PostgreSQL can't store, instead of replacing it.
    private static readonly UTF8Encoding Strict = new(encoderShouldEmitUTF8Identifier: false, throwOnInvalidBytes: true);

    /// <summary>Returns why a schema can't have that name, as the rest of a sentence; null when it can.</summary>
    public static string? RefuseSchema(string? name) => Refuse(name, MaxSchemaBytes);

    /// <summary>Returns why a queue can't have that name, or a message that uniqueness key; null when it can.</summary>
    public static string? RefuseQueue(string? name) => Refuse(name, MaxNameBytes);

    /// <summary>Returns why a message can't have that key, as the rest of a sentence; null when it can.</summary>
    public static string? RefuseKey(string? key) => Refuse(key, MessageHeader.MaxTextBytes);

    /// <exception cref="ArgumentException">A schema can't have that name.</exception>
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
            return bytes > maxBytes ? $"has {bytes} UTF-8 bytes, more than {maxBytes}. Use a shorter one." : null;
        }
        catch (EncoderFallbackException)
        {
            return "is not valid Unicode: it has half of a surrogate pair. Remove it.";
        }
    }
}

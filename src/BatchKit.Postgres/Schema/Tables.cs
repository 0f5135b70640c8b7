using System.Security.Cryptography;
using System.Text;

namespace BatchKit.Postgres.Schema;

/// <summary>The quoted names of a schema's tables, for statements.</summary>
internal sealed class Tables
{
    /// <summary>The bytes of a row of <c>messages</c> that a claim moves.</summary>
    public const string MessageSize = "pg_catalog.octet_length(payload) + coalesce(pg_catalog.octet_length(header), 0)";

    public Tables(string schema)
    {
        Schema = schema;
        Quoted = $"\"{schema.Replace("\"", "\"\"", StringComparison.Ordinal)}\"";
    }

    /// <summary>The schema's name as the user gave it.</summary>
    public string Schema { get; }

    public string Quoted { get; }

    public string Version => $"{Quoted}.version";

    public string Queues => $"{Quoted}.queues";

    public string Producers => $"{Quoted}.producers";

    public string Messages => $"{Quoted}.messages";

    public string Claims => $"{Quoted}.claims";

    public string Shards => $"{Quoted}.shards";

    public string UniqueKeys => $"{Quoted}.unique_keys";

    public string Dead => $"{Quoted}.dead";

    /// <summary>
    /// Returns a condition: a uniqueness key is in use by no message. A key that is being freed is in use until that is committed: <c>on conflict</c> alone would wait for it, and a handler's own transaction may take
    /// as long as it likes.
    /// </summary>
    public string KeyIsFree(string queue, string key) => $"not exists (select from {UniqueKeys} as used where used.queue = {queue} and used.key = {key})";
}

/// <summary>Arrays as rows. Every statement names the schema of each table, function and type, because <c>public</c> may have a stranger's of the same name, which fits the arguments better.</summary>
internal static class Rows
{
    /// <summary>Returns an item of a FROM clause with one column for each array: <c>unnest</c> of several arrays has no qualified form (manual, section 7.2.1.4).</summary>
    public static string Of(params ReadOnlySpan<string> arrays) => $"rows from (pg_catalog.unnest({string.Join("), pg_catalog.unnest(", arrays)}))";
}

/// <summary>The channel of a schema's notifications. The payload of a notification is the queue's number.</summary>
internal static class NotificationChannel
{
    // All schemas of a database share its channels, and a channel's name has at most 63 bytes. A schema's name may have as many, so the channel's name contains its hash.
    public static string Of(Tables tables) => $"batchkit:{Convert.ToHexStringLower(SHA256.HashData(Encoding.UTF8.GetBytes(tables.Schema)).AsSpan(0, 8))}";
}

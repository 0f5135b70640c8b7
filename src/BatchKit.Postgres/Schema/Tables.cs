using System.Security.Cryptography;
using System.Text;

namespace BatchKit.Postgres.Schema;

/// <summary>The quoted names of a schema's tables, for statements.</summary>
internal sealed class Tables
{
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

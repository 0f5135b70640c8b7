using System.Security.Cryptography;
using System.Text;

namespace BatchKit.Postgres.Schema;

/// <summary>The tables of one schema, as quoted names for statements.</summary>
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

/// <summary>The channel of a schema's notifications. A payload is a queue's number.</summary>
internal static class NotificationChannel
{
    // Channels are the whole database's and at most 63 bytes long, which a schema's name may have by itself: so they have a hash of it.
    public static string Of(Tables tables) => $"batchkit:{Convert.ToHexStringLower(SHA256.HashData(Encoding.UTF8.GetBytes(tables.Schema)).AsSpan(0, 8))}";
}

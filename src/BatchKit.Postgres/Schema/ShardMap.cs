using System.Text;

namespace BatchKit.Postgres.Schema;

/// <summary>Which shard a key belongs to: a stable hash, the same in every process and version, because rows outlive both.</summary>
internal static class ShardMap
{
    private const uint OffsetBasis = 2166136261;
    private const uint Prime = 16777619;

    /// <summary>The shard of a key, from 0; messages without a key share one.</summary>
    public static int ShardOf(string? key, int shards)
    {
        var hash = OffsetBasis;
        // FNV-1a over UTF-8 (draft-eastlake-fnv): a dozen lines need no package, and keys are short.
        foreach (var octet in Encoding.UTF8.GetBytes(key ?? string.Empty))
            hash = (hash ^ octet) * Prime;
        return (int)(hash % (uint)shards);
    }
}

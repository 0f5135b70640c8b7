using System.Text;
using BatchKit.Postgres.Schema;
using Microsoft.Extensions.ObjectPool;
using Npgsql;
using NpgsqlTypes;

namespace BatchKit.Postgres.Sending;

/// <summary>Converts rows to the arrays of a statement, in pooled lists.</summary>
internal sealed class InsertColumns : IResettable
{
    // Larger lists, grown by a large send, are not pooled. A payload takes 16 bytes of a list.
    private const int MaxKeptRows = 16_384;

    private static readonly ObjectPool<InsertColumns> Pool = ObjectPool.Create<InsertColumns>();

    private readonly List<ReadOnlyMemory<byte>> _payloads = [];
    private readonly List<int> _queues = [];
    private readonly List<short> _ranks = [];
    private readonly List<long> _delays = [];
    private readonly List<short?> _shards = [];
    private readonly List<string?> _keys = [];
    private readonly List<string?> _uniqueKeys = [];
    private readonly List<bool> _freesAtClaim = [];
    private readonly List<byte[]?> _headers = [];

    // The queues of the rows, each as often as the queue changes from row to row.
    private readonly List<QueueEntry> _entries = [];

    /// <summary>True when all rows go to one queue and have no header.</summary>
    public bool ArePlain { get; private set; }

    public bool HaveUniqueKeys { get; private set; }

    public static InsertColumns Rent(ReadOnlySpan<QueueRow> rows)
    {
        var columns = Pool.Get();
        columns.Fill(rows);
        return columns;
    }

    public void Return() => Pool.Return(this);

    /// <summary>Adds the arrays as a command's first parameters.</summary>
    public void AddTo(NpgsqlParameterCollection parameters)
    {
        Add(parameters, _payloads, NpgsqlDbType.Bytea);
        if (ArePlain)
        {
            parameters.Add(new NpgsqlParameter<int> { TypedValue = _queues[0] });
            parameters.Add(new NpgsqlParameter<short?> { TypedValue = _shards[0], NpgsqlDbType = NpgsqlDbType.Smallint });
            return;
        }

        Add(parameters, _queues, NpgsqlDbType.Integer);
        Add(parameters, _ranks, NpgsqlDbType.Smallint);
        Add(parameters, _delays, NpgsqlDbType.Bigint);
        Add(parameters, _shards, NpgsqlDbType.Smallint);
        Add(parameters, _keys, NpgsqlDbType.Text);
        Add(parameters, _uniqueKeys, NpgsqlDbType.Text);
        Add(parameters, _headers, NpgsqlDbType.Bytea);
    }

    /// <summary>Adds the values by which the statement checks the queues' numbers, as its last parameters.</summary>
    public void AddQueuesTo(NpgsqlParameterCollection parameters)
    {
        if (ArePlain)
        {
            parameters.Add(new NpgsqlParameter<string> { TypedValue = _entries[0].Name });
            parameters.Add(new NpgsqlParameter<short> { TypedValue = (short)_entries[0].Shards });
            return;
        }

        parameters.Add(new NpgsqlParameter<int[]> { TypedValue = [.. _entries.Select(static entry => entry.Id)] });
        parameters.Add(new NpgsqlParameter<string[]> { TypedValue = [.. _entries.Select(static entry => entry.Name)] });
        parameters.Add(new NpgsqlParameter<short[]> { TypedValue = [.. _entries.Select(static entry => (short)entry.Shards)] });
    }

    /// <summary>Adds the last parameter of the statement for rows with uniqueness keys.</summary>
    public void AddFreedTo(NpgsqlParameterCollection parameters)
    {
        if (HaveUniqueKeys)
            Add(parameters, _freesAtClaim, NpgsqlDbType.Boolean);
    }

    bool IResettable.TryReset()
    {
        var isKept = _payloads.Capacity <= MaxKeptRows;
        _payloads.Clear();
        _queues.Clear();
        _ranks.Clear();
        _delays.Clear();
        _shards.Clear();
        _keys.Clear();
        _uniqueKeys.Clear();
        _freesAtClaim.Clear();
        _headers.Clear();
        _entries.Clear();
        return isKept;
    }

    private static void Add<T>(NpgsqlParameterCollection parameters, List<T> values, NpgsqlDbType type) =>
        parameters.Add(new NpgsqlParameter<List<T>> { TypedValue = values, NpgsqlDbType = NpgsqlDbType.Array | type });

    private void Fill(ReadOnlySpan<QueueRow> rows)
    {
        ArePlain = true;
        HaveUniqueKeys = false;
        QueueEntry? last = null;
        foreach (ref readonly var row in rows)
        {
            if (!ReferenceEquals(row.Queue, last))
                _entries.Add(last = row.Queue);
            _payloads.Add(row.Payload);
            ArePlain &= row.Header is null && row.Queue.Id == rows[0].Queue.Id;
            HaveUniqueKeys |= row.Header?.UniqueKey is not null;
        }

        foreach (ref readonly var row in ArePlain ? rows[..1] : rows)
        {
            var isOrdered = row.Queue.Shards > 0;
            var header = row.Header;
            _queues.Add(row.Queue.Id);
            _ranks.Add(header?.Rank ?? 0);
            _delays.Add(header?.DelayMilliseconds ?? 0);
            _shards.Add(isOrdered ? (short)ShardMap.ShardOf(header?.Key, row.Queue.Shards) : null);
            _keys.Add(isOrdered ? header?.Key : null);
            _uniqueKeys.Add(header?.UniqueKey);
            _freesAtClaim.Add(header is { UniqueKey: not null, FreesAtClaim: true });
            _headers.Add(header?.Stored);
        }
    }
}

/// <summary>Maps a key to a shard by a hash that is the same in every process and version, because rows outlive both.</summary>
internal static class ShardMap
{
    private const uint OffsetBasis = 2166136261;
    private const uint Prime = 16777619;

    /// <summary>Returns the shard of a key, from 0. Messages without a key share a shard.</summary>
    public static int ShardOf(string? key, int shards)
    {
        var hash = OffsetBasis;
        // FNV-1a over UTF-8 (draft-eastlake-fnv). Keys are short, and a few lines need no package.
        foreach (var octet in Encoding.UTF8.GetBytes(key ?? string.Empty))
            hash = (hash ^ octet) * Prime;
        return (int)(hash % (uint)shards);
    }
}

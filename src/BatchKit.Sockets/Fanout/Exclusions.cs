namespace BatchKit.Broadcast.Fanout;

/// <summary>The connections that must not get certain messages of a batch.</summary>
internal sealed class Exclusions
{
    // Comparing up to this many numbers costs less than hashing one.
    private const int MaxCompared = 8;

    private readonly HashSet<OutputHandle> _handles = [];
    private readonly Dictionary<MessageHeader, HashSet<OutputHandle>> _largeHeaders = [];
    private MessageHeader?[] _headers = [];
    private OutputHandle[] _few = [];

    public void Read(ReadOnlySpan<MessageHeader?> headers)
    {
        MessageHeader? previous = null;
        foreach (var header in headers)
        {
            if (header is null || header == previous || header.ExcludedConnections.IsDefaultOrEmpty)
                continue;
            _handles.UnionWith(header.ExcludedConnections);
            if (header.ExcludedConnections.Length > MaxCompared)
                _largeHeaders.TryAdd(header, [.. header.ExcludedConnections]);
            previous = header;
        }

        if (_handles.Count == 0)
            return;
        _headers = headers.ToArray();
        _few = _handles.Count <= MaxCompared ? [.. _handles] : [];
    }

    /// <summary>True when the connection is excluded from at least one message.</summary>
    public bool Contains(OutputHandle connection) => _handles.Count switch
    {
        0 => false,
        <= MaxCompared => _few.AsSpan().Contains(connection),
        _ => _handles.Contains(connection),
    };

    /// <summary>True when the connection is excluded from one message.</summary>
    public bool Contains(int message, OutputHandle connection)
    {
        if (_handles.Count == 0 || _headers[message] is not { ExcludedConnections: { IsDefaultOrEmpty: false } excluded } header)
            return false;
        return excluded.Length > MaxCompared ? _largeHeaders[header].Contains(connection) : excluded.AsSpan().Contains(connection);
    }

    public void Clear()
    {
        if (_handles.Count == 0)
            return;
        _handles.Clear();
        _largeHeaders.Clear();
        (_headers, _few) = ([], []);
    }
}

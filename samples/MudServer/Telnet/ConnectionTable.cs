using System.Collections.Concurrent;

namespace MudServer.Telnet;

/// <summary>This node's connections, and which groups they are in.</summary>
internal sealed class ConnectionTable
{
    private readonly ConcurrentDictionary<OutputHandle, TelnetConnection> _connections = new();
    private readonly Lock _lock = new();

    // Guarded by the lock. A group's members are an immutable array, so that sending to them needs no lock.
    private readonly Dictionary<string, TelnetConnection[]> _groups = new(StringComparer.Ordinal);

    public int Count => _connections.Count;

    public int GroupCount
    {
        get
        {
            lock (_lock)
                return _groups.Count;
        }
    }

    public IEnumerable<TelnetConnection> Connections => _connections.Values;

    public void Add(TelnetConnection connection) => _connections[connection.Handle] = connection;

    public void Remove(TelnetConnection connection)
    {
        _connections.TryRemove(connection.Handle, out _);
        lock (_lock)
        {
            foreach (var group in _groups.Where(group => group.Value.Contains(connection)).Select(group => group.Key).ToList())
                LeaveLocked(connection, group);
        }
    }

    public bool TryGet(OutputHandle handle, out TelnetConnection connection)
    {
        var isFound = _connections.TryGetValue(handle, out var found);
        connection = found!;
        return isFound;
    }

    public TelnetConnection[] GetMembers(string group)
    {
        lock (_lock)
            return _groups.GetValueOrDefault(group, []);
    }

    public void Join(TelnetConnection connection, string group)
    {
        lock (_lock)
        {
            var members = _groups.GetValueOrDefault(group, []);
            if (!members.Contains(connection) && _connections.ContainsKey(connection.Handle))
                _groups[group] = [.. members, connection];
        }
    }

    public void Leave(TelnetConnection connection, string group)
    {
        lock (_lock)
            LeaveLocked(connection, group);
    }

    private void LeaveLocked(TelnetConnection connection, string group)
    {
        if (!_groups.TryGetValue(group, out var members))
            return;
        var rest = members.Where(member => member != connection).ToArray();
        if (rest.Length == 0)
            _groups.Remove(group);
        else
            _groups[group] = rest;
    }
}

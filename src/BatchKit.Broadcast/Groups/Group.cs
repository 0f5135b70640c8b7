namespace BatchKit.Broadcast.Groups;

/// <summary>The members of one group. A snapshot is made when one is asked for and something changed, so that joining costs no copy and sending no lock.</summary>
internal sealed class Group(string name)
{
    // Guards all fields.
    private readonly Lock _lock = new();
    private readonly Dictionary<ClientConnection, int> _places = [];
    private readonly List<ClientConnection> _members = [];
    private ClientConnection[]? _snapshot;
    private bool _isRetired;

    public string Name { get; } = name;

    /// <summary>The members of this moment; the array never changes.</summary>
    public ClientConnection[] Snapshot
    {
        get
        {
            lock (_lock)
                return _snapshot ??= [.. _members];
        }
    }

    /// <returns>False when the group was retired meanwhile: ask the table for it again.</returns>
    public bool TryAdd(ClientConnection connection)
    {
        lock (_lock)
        {
            if (_isRetired)
                return false;
            if (!_places.TryAdd(connection, _members.Count))
                return true;
            _members.Add(connection);
            _snapshot = null;
            return true;
        }
    }

    /// <summary>Retires it if nobody is in it, so that it leaves the table.</summary>
    public bool TryRetire()
    {
        lock (_lock)
            return _isRetired = _members.Count == 0;
    }

    /// <returns>True when nobody is left, so that it is retired and leaves the table.</returns>
    public bool Remove(ClientConnection connection)
    {
        lock (_lock)
        {
            if (!_places.Remove(connection, out var place))
                return false;
            var last = _members[^1];
            _members[place] = last;
            _members.RemoveAt(_members.Count - 1);
            if (last != connection)
                _places[last] = place;
            _snapshot = null;
            return _isRetired = _members.Count == 0;
        }
    }
}

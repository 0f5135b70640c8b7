namespace BatchKit.Broadcast.Groups;

/// <summary>The groups of one connection.</summary>
internal sealed class Memberships(ClientConnection connection)
{
    // Guards the fields; a group's own lock is taken inside it, never the other way round.
    private readonly Lock _lock = new();
    private HashSet<Group>? _groups;
    private bool _isClosed;

    public IReadOnlyList<string> Names
    {
        get
        {
            lock (_lock)
                return _groups is null ? [] : [.. _groups.Select(group => group.Name)];
        }
    }

    /// <summary>True when it joins none any more.</summary>
    public bool IsClosed
    {
        get
        {
            lock (_lock)
                return _isClosed;
        }
    }

    /// <returns>False when the group is retired.</returns>
    public bool TryJoin(Group group)
    {
        lock (_lock)
        {
            if (_isClosed)
                return !group.TryRetire();
            if (!group.TryAdd(connection))
                return false;
            (_groups ??= []).Add(group);
            return true;
        }
    }

    /// <returns>True when nobody is left in the group.</returns>
    public bool Leave(Group group)
    {
        lock (_lock)
            return _groups?.Remove(group) is true && group.Remove(connection);
    }

    /// <summary>Leaves all groups and joins none any more.</summary>
    /// <returns>The groups in which nobody is left.</returns>
    public IReadOnlyList<Group> Close()
    {
        lock (_lock)
        {
            _isClosed = true;
            var groups = _groups;
            _groups = null;
            return groups is null ? [] : [.. groups.Where(group => group.Remove(connection))];
        }
    }
}

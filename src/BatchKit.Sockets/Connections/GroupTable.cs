using System.Collections.Concurrent;
using System.Collections.Immutable;
using BatchKit.Diagnostics;

namespace BatchKit.Broadcast.Connections;

/// <summary>The groups that have members on this node.</summary>
/// <param name="faults">Counts what watchers throw. Joins, sends and ends go on.</param>
internal sealed class GroupTable(ObserverFaults faults)
{
    private readonly ConcurrentDictionary<string, Group> _groups = new(StringComparer.Ordinal);

    // Replaced as a whole, under no lock.
    private ImmutableArray<Action<string>> _watchers = [];

    public int Count => _groups.Count;

    public IReadOnlyCollection<string> Names => [.. _groups.Select(static entry => entry.Key)];

    public bool Contains(string group)
    {
        ArgumentNullException.ThrowIfNull(group);
        return _groups.ContainsKey(group);
    }

    public ClientConnection[] GetMembers(string group)
    {
        ArgumentNullException.ThrowIfNull(group);
        return _groups.TryGetValue(group, out var found) ? found.Snapshot : [];
    }

    public void Join(ClientConnection connection, string name)
    {
        while (true)
        {
            var group = _groups.GetOrAdd(name, static name => new Group(name));
            if (connection.Memberships.TryJoin(group))
            {
                if (!_watchers.IsEmpty)
                    group.Announce(this);
                return;
            }

            // The group was retired between the two steps, or this connection can join no more groups and left it empty. Remove it.
            Remove(group);
            if (connection.Memberships.IsClosed)
                return;
        }
    }

    public void Leave(ClientConnection connection, string name)
    {
        if (_groups.TryGetValue(name, out var group) && connection.Memberships.Leave(group))
            Remove(group);
    }

    public void LeaveAll(ClientConnection connection)
    {
        foreach (var group in connection.Memberships.Close())
            Remove(group);
    }

    /// <summary>Tells of each group that is added or removed from here on.</summary>
    public IDisposable Watch(Action<string> changed)
    {
        ArgumentNullException.ThrowIfNull(changed);
        ImmutableInterlocked.Update(ref _watchers, static (watchers, added) => watchers.Add(added), changed);
        return new Watching(this, changed);
    }

    /// <summary>Tells the watchers that a group was added or removed.</summary>
    public void Notify(string name)
    {
        foreach (var watcher in _watchers)
        {
            try
            {
                watcher(name);
            }
            catch (Exception exception)
            {
                faults.Add(exception);
            }
        }
    }

    private void Remove(Group group)
    {
        if (_groups.TryRemove(KeyValuePair.Create(group.Name, group)))
            Notify(group.Name);
    }

    private sealed class Watching(GroupTable groups, Action<string> changed) : IDisposable
    {
        public void Dispose() => ImmutableInterlocked.Update(ref groups._watchers, static (watchers, removed) => watchers.Remove(removed), changed);
    }
}

/// <summary>The members of one group. A snapshot is created on demand after a change, so that joining costs no copy, and sends share one array.</summary>
internal sealed class Group(string name)
{
    // Guards all fields.
    private readonly Lock _lock = new();
    private readonly Dictionary<ClientConnection, int> _places = [];
    private readonly List<ClientConnection> _members = [];
    private ClientConnection[]? _snapshot;
    private bool _isRetired;

    // Held while the watchers are told of the group, so that no join ends before they know; see docs/decisions/0097.
    private readonly Lock _announcing = new();
    private volatile bool _isAnnounced;

    public string Name { get; } = name;

    /// <summary>The current members; the array never changes.</summary>
    public ClientConnection[] Snapshot
    {
        get
        {
            lock (_lock)
                return _snapshot ??= [.. _members];
        }
    }

    /// <returns>False when the group is retired: get it from the table again.</returns>
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

    /// <summary>Tells the watchers of the group, unless they know. Each member's join does, because the first one may not have got that far.</summary>
    public void Announce(GroupTable groups)
    {
        if (_isAnnounced)
            return;
        lock (_announcing)
        {
            if (!_isAnnounced)
                groups.Notify(Name);
            _isAnnounced = true;
        }
    }

    /// <summary>Retires the group when it is empty, so that it can be removed from the table.</summary>
    public bool TryRetire()
    {
        lock (_lock)
            return _isRetired = _members.Count == 0;
    }

    /// <returns>True when that emptied the group: it is retired and must be removed from the table.</returns>
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

/// <summary>The groups of one connection.</summary>
internal sealed class Memberships(ClientConnection connection)
{
    private const int LockCount = 64;

    private static readonly Lock[] Locks = [.. Enumerable.Range(0, LockCount).Select(_ => new Lock())];

    // Guards the fields. A group's own lock is taken inside it; the opposite order never happens, nor are two of these taken together. Shared by some connections: one each would take 40 bytes.
    private readonly Lock _lock = Locks[(uint)connection.Handle.GetHashCode() % LockCount];

    // Most clients are in one group, and a set takes 170 bytes: nothing, a group, or a set of several.
    private object? _groups;
    private bool _isClosed;

    public IReadOnlyList<string> Names
    {
        get
        {
            lock (_lock)
                return [.. AllLocked().Select(group => group.Name)];
        }
    }

    /// <summary>True once the connection can join no more groups.</summary>
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
            AddLocked(group);
            return true;
        }
    }

    /// <returns>True when that emptied the group.</returns>
    public bool Leave(Group group)
    {
        lock (_lock)
            return RemoveLocked(group) && group.Remove(connection);
    }

    /// <summary>Leaves all groups, and joins none afterwards.</summary>
    /// <returns>The groups that it emptied.</returns>
    public IReadOnlyList<Group> Close()
    {
        lock (_lock)
        {
            _isClosed = true;
            var groups = AllLocked();
            _groups = null;
            return [.. groups.Where(group => group.Remove(connection))];
        }
    }

    private HashSet<Group> AllLocked() => _groups switch
    {
        HashSet<Group> several => several,
        Group only => [only],
        _ => [],
    };

    private void AddLocked(Group group)
    {
        if (_groups is HashSet<Group> several)
            several.Add(group);
        else if (_groups is not Group only)
            _groups = group;
        else if (only != group)
            _groups = new HashSet<Group> { only, group };
    }

    private bool RemoveLocked(Group group)
    {
        if (_groups is HashSet<Group> several)
            return several.Remove(group);
        if (_groups != group)
            return false;
        _groups = null;
        return true;
    }
}

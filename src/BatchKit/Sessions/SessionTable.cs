using System.Diagnostics.CodeAnalysis;

namespace BatchKit.Sessions;

/// <summary>The sessions by handle, by connection and by group. Thread-safe.</summary>
internal sealed class SessionTable(int maxSessions)
{
    private static readonly Session[] NoMembers = [];

    // Guards everything below.
    private readonly Lock _lock = new();
    private readonly Dictionary<OutputHandle, Session> _sessions = [];
    private readonly Dictionary<OutputHandle, Session> _byConnection = [];
    private readonly Dictionary<string, Group> _groups = new(StringComparer.Ordinal);
    private readonly Dictionary<Session, HashSet<string>> _groupsOf = [];

    public int Count
    {
        get
        {
            lock (_lock)
                return _sessions.Count;
        }
    }

    public Session[] All
    {
        get
        {
            lock (_lock)
                return [.. _sessions.Values];
        }
    }

    public bool TryAdd(Session session)
    {
        lock (_lock)
            return _sessions.Count < maxSessions && _sessions.TryAdd(session.Handle, session);
    }

    public bool TryGet(OutputHandle handle, [NotNullWhen(true)] out Session? session)
    {
        lock (_lock)
            return _sessions.TryGetValue(handle, out session);
    }

    public bool TryGetByConnection(OutputHandle connection, [NotNullWhen(true)] out Session? session)
    {
        lock (_lock)
            return _byConnection.TryGetValue(connection, out session);
    }

    /// <summary>Records which session a connection belongs to.</summary>
    /// <returns>The other session that it belonged to, if it did.</returns>
    public Session? Bind(OutputHandle connection, Session session)
    {
        lock (_lock)
        {
            _byConnection.TryGetValue(connection, out var other);
            _byConnection[connection] = session;
            return ReferenceEquals(other, session) ? null : other;
        }
    }

    public void Unbind(OutputHandle connection, Session session)
    {
        lock (_lock)
        {
            if (_byConnection.TryGetValue(connection, out var bound) && ReferenceEquals(bound, session))
                _byConnection.Remove(connection);
        }
    }

    public void Join(Session session, string group)
    {
        lock (_lock)
        {
            if (!_sessions.ContainsKey(session.Handle))
                return;
            if (!_groupsOf.TryGetValue(session, out var groups))
                _groupsOf.Add(session, groups = new HashSet<string>(StringComparer.Ordinal));
            if (!groups.Add(group))
                return;
            if (!_groups.TryGetValue(group, out var members))
                _groups.Add(group, members = new Group());
            members.Add(session);
        }
    }

    public void Leave(Session session, string group)
    {
        lock (_lock)
        {
            if (_groupsOf.TryGetValue(session, out var groups) && groups.Remove(group))
                LeaveGroup(session, group);
        }
    }

    /// <summary>The members of a group: a snapshot.</summary>
    public Session[] MembersOf(string group)
    {
        lock (_lock)
            return _groups.TryGetValue(group, out var members) ? members.Snapshot : NoMembers;
    }

    public void Remove(Session session)
    {
        lock (_lock)
        {
            _sessions.Remove(session.Handle);
            if (!_groupsOf.Remove(session, out var groups))
                return;
            foreach (var group in groups)
                LeaveGroup(session, group);
        }
    }

    private void LeaveGroup(Session session, string group)
    {
        var members = _groups[group];
        if (members.Remove(session))
            _groups.Remove(group);
    }

    /// <summary>A group's members, copied once for all sends until they change.</summary>
    private sealed class Group
    {
        private readonly HashSet<Session> _members = [];
        private Session[]? _snapshot;

        public Session[] Snapshot => _snapshot ??= [.. _members];

        public void Add(Session session)
        {
            _members.Add(session);
            _snapshot = null;
        }

        /// <returns>True when it has no members left.</returns>
        public bool Remove(Session session)
        {
            _members.Remove(session);
            _snapshot = null;
            return _members.Count == 0;
        }
    }
}

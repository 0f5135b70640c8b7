namespace BatchKit.SignalR.Clients;

/// <summary>The clients of each key: a group, a user, or the whole hub. A send iterates over a snapshot.</summary>
internal sealed class MemberTable
{
    // Guards the members and their snapshots.
    private readonly Lock _lock = new();
    private readonly Dictionary<string, Members> _members = new(StringComparer.Ordinal);

    public int Count
    {
        get
        {
            lock (_lock)
                return _members.Count;
        }
    }

    public void Add(string key, HubClient client)
    {
        lock (_lock)
        {
            if (!_members.TryGetValue(key, out var members))
                _members.Add(key, members = new Members());
            members.Add(client);
        }
    }

    public void Remove(string key, HubClient client)
    {
        lock (_lock)
        {
            if (_members.TryGetValue(key, out var members) && members.Remove(client))
                _members.Remove(key);
        }
    }

    public HubClient[] Get(string key)
    {
        lock (_lock)
            return _members.TryGetValue(key, out var members) ? members.Snapshot : [];
    }

    private sealed class Members
    {
        private readonly HashSet<HubClient> _clients = [];
        private HubClient[]? _snapshot;

        public HubClient[] Snapshot => _snapshot ??= [.. _clients];

        public void Add(HubClient client)
        {
            if (_clients.Add(client))
                _snapshot = null;
        }

        /// <returns>True when no one is left.</returns>
        public bool Remove(HubClient client)
        {
            if (_clients.Remove(client))
                _snapshot = null;
            return _clients.Count == 0;
        }
    }
}

using System.Collections.Concurrent;

namespace BatchKit.Broadcast.Groups;

/// <summary>The groups that have members on this node.</summary>
internal sealed class GroupTable
{
    private readonly ConcurrentDictionary<string, Group> _groups = new(StringComparer.Ordinal);

    public int Count => _groups.Count;

    public ClientConnection[] GetMembers(string name) => _groups.TryGetValue(name, out var group) ? group.Snapshot : [];

    public void Join(ClientConnection connection, string name)
    {
        while (true)
        {
            var group = _groups.GetOrAdd(name, static name => new Group(name));
            if (connection.Memberships.TryJoin(group))
                return;

            // It was retired between the two steps, or is empty and nobody joins it: it leaves the table.
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

    private void Remove(Group group) => _groups.TryRemove(KeyValuePair.Create(group.Name, group));
}

using System.Collections.Concurrent;
using BatchKit.SignalR.Clients;
using BatchKit.SignalR.Records;

namespace BatchKit.SignalR.Hubs;

/// <summary>The clients of one hub on this server, by connection, group and user.</summary>
internal sealed class HubMembers
{
    private readonly ConcurrentDictionary<string, HubClient> _clients = new(StringComparer.Ordinal);
    private readonly MemberTable _all = new();
    private readonly MemberTable _groups = new();
    private readonly MemberTable _users = new();

    public HubClient? Find(string connectionId) => _clients.GetValueOrDefault(connectionId);

    public HubClient[] Get(HubTarget target, string key) => target switch
    {
        HubTarget.All => _all.Get(string.Empty),
        HubTarget.Group => _groups.Get(key),
        HubTarget.User => _users.Get(key),
        HubTarget.Connection => Find(key) is { } client ? [client] : [],
        _ => [],
    };

    public void Add(HubClient client)
    {
        _clients[client.Connection.ConnectionId] = client;
        _all.Add(string.Empty, client);
        if (client.Connection.UserIdentifier is { } user)
            _users.Add(user, client);
    }

    /// <returns>The client; null when it is not here.</returns>
    public HubClient? Remove(string connectionId)
    {
        if (!_clients.TryRemove(connectionId, out var client))
            return null;
        _all.Remove(string.Empty, client);
        if (client.Connection.UserIdentifier is { } user)
            _users.Remove(user, client);
        lock (client.Groups)
        {
            client.IsConnected = false;
            foreach (var group in client.Groups)
                _groups.Remove(group, client);
        }

        return client;
    }

    public void Join(HubClient client, string group)
    {
        lock (client.Groups)
        {
            if (client.IsConnected && client.Groups.Add(group))
                _groups.Add(group, client);
        }
    }

    public void Leave(HubClient client, string group)
    {
        lock (client.Groups)
        {
            if (client.Groups.Remove(group))
                _groups.Remove(group, client);
        }
    }
}

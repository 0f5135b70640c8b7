using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Tests.Support;

namespace BatchKit.Broadcast.Tests.Connections;

public sealed class GroupTableTests : IAsyncDisposable
{
    private readonly BroadcastTransport _transport = new();
    private readonly GroupTable _groups;

    public GroupTableTests() => _groups = _transport.Groups;

    public ValueTask DisposeAsync() => _transport.DisposeAsync();

    [Fact]
    public void A_group_without_a_name_is_refused()
    {
        Assert.Equal("group", Assert.Throws<ArgumentNullException>(() => _transport.GetMembers(null!)).ParamName);
        Assert.Equal("group", Assert.Throws<ArgumentNullException>(() => _transport.HasMembers(null!)).ParamName);
    }

    [Fact]
    public void Members_are_those_that_joined_and_did_not_leave()
    {
        var (first, second) = (new FakeClient(_transport).Connection, new FakeClient(_transport).Connection);

        _groups.Join(first, "hall");
        _groups.Join(second, "hall");
        _groups.Join(second, "hall");
        _groups.Leave(first, "hall");
        _groups.Leave(first, "hall");

        Assert.Equal([second], _groups.GetMembers("hall"));
        Assert.Equal(["hall"], second.Memberships.Names);
        Assert.Empty(first.Memberships.Names);
    }

    [Fact]
    public void A_group_exists_while_it_has_members()
    {
        var client = new FakeClient(_transport).Connection;

        _groups.Join(client, "hall");
        var countWithMember = _groups.Count;
        _groups.Leave(client, "hall");

        Assert.Equal((1, 0), (countWithMember, _groups.Count));
        Assert.Empty(_groups.GetMembers("hall"));
    }

    [Fact]
    public void A_watcher_that_throws_is_counted_and_stops_neither_a_join_nor_an_end()
    {
        var client = new FakeClient(_transport).Connection;
        using var watching = _transport.Watch(static _ => throw new InvalidOperationException("the watcher's own"));

        _groups.Join(client, "hall");
        Assert.Equal([client], _groups.GetMembers("hall"));
        _groups.LeaveAll(client);

        Assert.Equal((0, 2L), (_groups.Count, _transport.LoggerFaults.Count));
    }

    [Fact]
    public void A_watcher_is_told_of_first_and_last_members_after_the_change()
    {
        var told = new List<(string Group, bool HasMembers)>();
        var (first, second) = (new FakeClient(_transport).Connection, new FakeClient(_transport).Connection);
        _groups.Join(first, "cellar");

        using (_transport.Watch(group => told.Add((group, _transport.HasMembers(group)))))
        {
            _groups.Join(first, "hall");
            _groups.Join(second, "hall");
            _groups.Leave(first, "hall");
            _groups.LeaveAll(second);
            _groups.Leave(first, "cellar");
        }

        _groups.Join(first, "attic");
        Assert.Equal([("hall", true), ("hall", false), ("cellar", false)], told);
        Assert.Equal(["attic"], _transport.GetGroups());
    }

    [Fact]
    public void A_snapshot_never_changes()
    {
        var clients = Enumerable.Range(0, 5).Select(_ => new FakeClient(_transport).Join("hall").Connection).ToArray();
        var before = _groups.GetMembers("hall");

        _groups.Leave(clients[0], "hall");
        var after = _groups.GetMembers("hall");

        Assert.Equal(clients, before);
        Assert.Equal(clients[1..].ToHashSet(), after.ToHashSet());
        Assert.Same(after, _groups.GetMembers("hall"));
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    public void A_client_leaves_one_of_its_groups_and_then_all(int groups)
    {
        var names = Enumerable.Range(0, groups).Select(number => $"hall {number}").ToArray();
        var client = new FakeClient(_transport).Join([.. names, .. names]).Connection;
        var joined = client.Memberships.Names.Order().ToArray();

        _groups.Leave(client, names[0]);
        var left = client.Memberships.Names.Order().ToArray();
        _groups.LeaveAll(client);

        Assert.Equal(names, joined);
        Assert.Equal(names[1..], left);
        Assert.Empty(client.Memberships.Names);
        Assert.Equal(0, _groups.Count);
    }

    [Fact]
    public void Names_differ_by_case()
    {
        new FakeClient(_transport).Join("Hall", "hall");

        Assert.Equal(2, _groups.Count);
    }

    [Fact]
    public void Who_has_left_all_groups_joins_none_any_more_and_leaves_none_behind()
    {
        var (client, other) = (new FakeClient(_transport).Join("hall", "guild").Connection, new FakeClient(_transport).Join("guild").Connection);

        _groups.LeaveAll(client);
        _groups.Join(client, "attic");
        _groups.Join(client, "guild");
        _groups.LeaveAll(client);

        Assert.Equal(1, _groups.Count);
        Assert.Equal([other], _groups.GetMembers("guild"));
        Assert.Empty(client.Memberships.Names);
    }

    [Fact]
    public async Task Members_and_groups_agree_after_joins_and_leaves_side_by_side()
    {
        const int workers = 4;
        const int turns = 20_000;
        var clients = Enumerable.Range(0, 12).Select(_ => new FakeClient(_transport).Connection).ToArray();
        string[] names = ["a", "b", "c"];

        await Task.WhenAll(Enumerable.Range(0, workers).Select(worker => Task.Run(() => Churn(new Random(worker), clients, names, turns)))).WithinDeadline();

        foreach (var name in names)
        {
            var members = clients.Where(client => client.Memberships.Names.Contains(name)).ToHashSet();
            Assert.Equal(members, _groups.GetMembers(name).ToHashSet());
        }

        Assert.Equal(names.Count(name => _groups.GetMembers(name).Length > 0), _groups.Count);
        Array.ForEach(clients, _groups.LeaveAll);
        Assert.Equal(0, _groups.Count);
    }

    private void Churn(Random random, ClientConnection[] clients, string[] names, int turns)
    {
        for (var turn = 0; turn < turns; turn++)
        {
            var (client, name) = (clients[random.Next(clients.Length)], names[random.Next(names.Length)]);
            if (random.Next(2) == 0)
                _groups.Join(client, name);
            else
                _groups.Leave(client, name);
        }
    }
}

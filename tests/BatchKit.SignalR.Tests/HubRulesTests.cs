using BatchKit.SignalR.Tests.Support;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Client;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.SignalR.Tests;

/// <summary>What SignalR promises of every hub's manager, on one server, and on two with a backplane.</summary>
public sealed class HubRulesTests
{
    [Theory]
    [MemberData(nameof(Cluster.Kinds), MemberType = typeof(Cluster))]
    public async Task All_clients_get_what_is_sent_to_all(string kind)
    {
        await using var cluster = await Cluster.StartAsync(kind);

        await cluster.Hub.Clients.All.SendAsync(TestHub.Receive, "hello");

        await cluster.AssertReceivedAsync("hello", "hello", "hello");
    }

    [Theory]
    [MemberData(nameof(Cluster.Kinds), MemberType = typeof(Cluster))]
    public async Task Excluded_connections_get_nothing(string kind)
    {
        await using var cluster = await Cluster.StartAsync(kind);
        await cluster.JoinAsync("room", 0, 1, 2);

        await cluster.Hub.Clients.AllExcept([cluster.Ids[0]]).SendAsync(TestHub.Receive, "hello");
        await cluster.Hub.Clients.GroupExcept("room", [cluster.Ids[1], cluster.Ids[2]]).SendAsync(TestHub.Receive, "room");

        await cluster.AssertReceivedAsync("room", "hello", "hello");
    }

    [Theory]
    [MemberData(nameof(Cluster.Kinds), MemberType = typeof(Cluster))]
    public async Task Only_members_get_what_is_sent_to_a_group(string kind)
    {
        await using var cluster = await Cluster.StartAsync(kind);
        await cluster.JoinAsync("room", 0, 1);

        await cluster.Hub.Clients.Group("room").SendAsync(TestHub.Receive, "1");
        await cluster.Hub.Groups.RemoveFromGroupAsync(cluster.Ids[1], "room");
        await cluster.Hub.Clients.Group("room").SendAsync(TestHub.Receive, "2");

        await cluster.AssertReceivedAsync("1 2", "1", "");
    }

    [Theory]
    [MemberData(nameof(Cluster.Kinds), MemberType = typeof(Cluster))]
    public async Task A_change_of_a_group_within_a_scope_comes_behind_what_was_sent_before_it(string kind)
    {
        await using var cluster = await Cluster.StartAsync(kind);
        await cluster.JoinAsync("room", 0, 2);

        await using (cluster.Servers[0].Output.BeginBufferingScope())
        {
            await cluster.Hub.Clients.Group("room").SendAsync(TestHub.Receive, "before");
            await cluster.JoinAsync("room", 1);
            await cluster.Hub.Clients.Group("room").SendAsync(TestHub.Receive, "between");
            await cluster.Hub.Groups.RemoveFromGroupAsync(cluster.Ids[2], "room").WithinDeadline();
            await cluster.Hub.Clients.Group("room").SendAsync(TestHub.Receive, "after");
        }

        await cluster.AssertReceivedAsync("before between after", "between after", "before between");
    }

    [Theory]
    [MemberData(nameof(Cluster.Kinds), MemberType = typeof(Cluster))]
    public async Task Several_groups_users_and_connections_are_each_sent_to(string kind)
    {
        await using var cluster = await Cluster.StartAsync(kind);
        await cluster.JoinAsync("a", 0, 1);
        await cluster.JoinAsync("b", 1);

        await cluster.Hub.Clients.Groups(["a", "b"]).SendAsync(TestHub.Receive, "groups");
        await cluster.Hub.Clients.Users(["user0", "user2"]).SendAsync(TestHub.Receive, "users");
        await cluster.Hub.Clients.Clients([cluster.Ids[1], cluster.Ids[2], "no one"]).SendAsync(TestHub.Receive, "clients");

        await cluster.AssertReceivedAsync("groups users", "groups groups clients", "users clients");
    }

    [Theory]
    [MemberData(nameof(Cluster.Kinds), MemberType = typeof(Cluster))]
    public async Task A_user_or_connection_that_is_named_twice_gets_a_message_once(string kind)
    {
        await using var cluster = await Cluster.StartAsync(kind);

        await cluster.Hub.Clients.Users(["user0", "user2", "user0"]).SendAsync(TestHub.Receive, "users");
        await cluster.Hub.Clients.Clients([cluster.Ids[1], cluster.Ids[1]]).SendAsync(TestHub.Receive, "clients");

        await cluster.AssertReceivedAsync("users", "clients", "users");
    }

    [Fact]
    public async Task A_name_that_is_null_is_refused_and_one_of_a_list_is_left_out()
    {
        await using var cluster = await Cluster.StartAsync("alone");
        await cluster.JoinAsync("", 0);
        await cluster.JoinAsync("room", 1);

        await Assert.ThrowsAsync<ArgumentNullException>(() => cluster.Hub.Clients.Group(null!).SendAsync(TestHub.Receive, "null"));
        await Assert.ThrowsAsync<ArgumentNullException>(() => cluster.Hub.Clients.GroupExcept(null!, []).SendAsync(TestHub.Receive, "null"));
        await Assert.ThrowsAsync<ArgumentNullException>(() => cluster.Hub.Clients.User(null!).SendAsync(TestHub.Receive, "null"));
        await cluster.Hub.Clients.Groups([null!, "", "room"]).SendAsync(TestHub.Receive, "groups");
        await cluster.Hub.Clients.Users([null!, "", "user2"]).SendAsync(TestHub.Receive, "users");
        await cluster.Hub.Clients.Group("").SendAsync(TestHub.Receive, "empty");

        await cluster.AssertReceivedAsync("empty", "groups", "users");
    }

    [Fact]
    public async Task A_list_that_its_caller_changes_after_a_send_has_returned_is_sent_to_as_it_was()
    {
        var (bus, back) = (new FrameBus(), new TaskCompletionSource());
        await using var server = await HubServer.StartAsync(
            builder => bus.Join(builder, back.Task),
            services: static services => services.Configure<OutputBufferOptions>(static options => (options.MaxBufferedBytes, options.MaxMessageBytes) = (4096, 1024)));
        await using var client = await HubClientConnection.ConnectAsync(server.Address);
        await server.Hub.Groups.AddToGroupAsync(client.Id, "second");
        var group = 0;
        while (server.Output.TryWrite(HubHandles.Group<TestHub>($"{group++}"), [0]))
            continue;
        var groups = new List<string> { "first", "second" };

        var sending = server.Hub.Clients.Groups(groups).SendAsync(TestHub.Receive, "hello");
        groups.Clear();
        back.SetResult();

        await Task.WhenAll(sending, client.WaitForAsync("hello")).WithinDeadline();
    }

    [Theory]
    [MemberData(nameof(Cluster.Kinds), MemberType = typeof(Cluster))]
    public async Task Joining_twice_sends_once_and_leaving_a_strange_group_does_nothing(string kind)
    {
        await using var cluster = await Cluster.StartAsync(kind);
        await cluster.JoinAsync("room", 1, 1);
        await cluster.Hub.Groups.RemoveFromGroupAsync(cluster.Ids[1], "another");

        await cluster.Hub.Clients.Group("room").SendAsync(TestHub.Receive, "once");

        await cluster.AssertReceivedAsync("", "once", "");
    }

    [Theory]
    [MemberData(nameof(Cluster.Kinds), MemberType = typeof(Cluster))]
    public async Task A_client_that_has_disconnected_is_in_no_group_and_sends_to_it_do_nothing(string kind)
    {
        await using var cluster = await Cluster.StartAsync(kind);
        await cluster.JoinAsync("room", 0, 1);
        var gone = cluster.Ids[1];
        await cluster.Clients[1].Connection.StopAsync();
        await cluster.WaitForConnectionsAsync(2);

        await cluster.Hub.Clients.Client(gone).SendAsync(TestHub.Receive, "lost");
        await cluster.Hub.Clients.User("user1").SendAsync(TestHub.Receive, "lost");
        await cluster.Hub.Clients.Group("room").SendAsync(TestHub.Receive, "room");

        await cluster.Servers[0].FlushAsync(cluster.Clients[0]);
        Assert.Equal(["room"], cluster.Clients[0].Texts);
        Assert.Empty(cluster.Clients[1].Texts);
    }

    [Theory]
    [MemberData(nameof(Cluster.Kinds), MemberType = typeof(Cluster))]
    public async Task A_client_answers_a_call_wherever_it_is_connected(string kind)
    {
        await using var cluster = await Cluster.StartAsync(kind);

        for (var client = 0; client < 3; client++)
            Assert.Equal(client + 41, await cluster.Hub.Clients.Client(cluster.Ids[client]).InvokeAsync<int>("Add", 41, CancellationToken.None).WithinDeadline());
    }

    [Theory]
    [MemberData(nameof(Cluster.Kinds), MemberType = typeof(Cluster))]
    public async Task A_call_within_a_scope_does_not_wait_for_its_end(string kind)
    {
        await using var cluster = await Cluster.StartAsync(kind);

        await using (cluster.Servers[0].Output.BeginBufferingScope())
        {
            await cluster.Hub.Clients.Client(cluster.Ids[1]).SendAsync(TestHub.Receive, "before");
            Assert.Equal(43, await cluster.Hub.Clients.Client(cluster.Ids[1]).InvokeAsync<int>("Add", 42, CancellationToken.None).WithinDeadline());
            Assert.Equal(["before"], cluster.Clients[1].Texts);
        }
    }

    [Theory]
    [MemberData(nameof(Cluster.Kinds), MemberType = typeof(Cluster))]
    public async Task A_clients_error_reaches_the_caller(string kind)
    {
        await using var cluster = await Cluster.StartAsync(kind);

        var error = await Assert.ThrowsAsync<HubException>(() => cluster.Hub.Clients.Client(cluster.Ids[1]).InvokeAsync<int>("Fail", CancellationToken.None).WithinDeadline());

        Assert.Contains("on purpose", error.Message, StringComparison.Ordinal);
    }

    [Theory]
    [MemberData(nameof(Cluster.Kinds), MemberType = typeof(Cluster))]
    public async Task A_call_of_a_connection_that_does_not_exist_fails(string kind)
    {
        await using var cluster = await Cluster.StartAsync(kind, options => options.ServerTimeout = TimeSpan.FromMilliseconds(50));

        await Assert.ThrowsAsync<IOException>(() => cluster.Hub.Clients.Client("no one").InvokeAsync<int>("Add", 1, CancellationToken.None).WithinDeadline());
        await cluster.Hub.Groups.AddToGroupAsync("no one", "room").WithinDeadline();
    }

    [Theory]
    [MemberData(nameof(Cluster.Kinds), MemberType = typeof(Cluster))]
    public async Task A_cancelled_call_ends(string kind)
    {
        await using var cluster = await Cluster.StartAsync(kind);
        using var cancelled = new CancellationTokenSource();

        var call = cluster.Hub.Clients.Client(cluster.Ids[1]).InvokeAsync<int>("Never", cancelled.Token);
        await cluster.NeverCalled.WithinDeadline();
        await cancelled.CancelAsync();

        await Assert.ThrowsAsync<HubException>(() => call.WithinDeadline());
    }

    [Theory]
    [MemberData(nameof(Cluster.Kinds), MemberType = typeof(Cluster))]
    public async Task A_call_that_is_cancelled_before_it_begins_is_no_error_of_the_hub(string kind)
    {
        await using var cluster = await Cluster.StartAsync(kind);

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => cluster.Hub.Clients.Client(cluster.Ids[1]).InvokeAsync<int>("Never", new CancellationToken(canceled: true)).WithinDeadline());
    }

    [Theory]
    [MemberData(nameof(Cluster.Kinds), MemberType = typeof(Cluster))]
    public async Task A_call_fails_when_its_client_disconnects(string kind)
    {
        await using var cluster = await Cluster.StartAsync(kind);

        var call = cluster.Hub.Clients.Client(cluster.Ids[1]).InvokeAsync<int>("Never", CancellationToken.None);
        await cluster.NeverCalled.WithinDeadline();
        await cluster.Clients[1].Connection.StopAsync();

        var error = await Assert.ThrowsAnyAsync<Exception>(() => call.WithinDeadline());
        Assert.Contains("disconnected", error.Message, StringComparison.Ordinal);
    }

    [Theory]
    [MemberData(nameof(Cluster.Kinds), MemberType = typeof(Cluster))]
    public async Task Streams_flow_in_both_directions(string kind)
    {
        await using var cluster = await Cluster.StartAsync(kind);
        var client = cluster.Clients[1].Connection;

        var counted = new List<int>();
        await foreach (var number in client.StreamAsync<int>("Count", 100))
            counted.Add(number);

        Assert.Equal(Enumerable.Range(1, 100), counted);
        Assert.Equal(5050, await client.InvokeAsync<int>("Sum", counted.ToAsyncEnumerable()).WithinDeadline());
    }
}

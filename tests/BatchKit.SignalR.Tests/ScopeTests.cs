using BatchKit.SignalR.Tests.Support;
using Microsoft.AspNetCore.Http.Connections;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Client;

namespace BatchKit.SignalR.Tests;

/// <summary>What is sent within a scope leaves as one write for each client.</summary>
public sealed class ScopeTests
{
    private static readonly string[] Thousand = [.. Enumerable.Range(1, 1000).Select(number => $"{number}")];

    [Fact]
    public async Task A_loop_in_a_scope_is_one_WebSocket_message_for_a_client()
    {
        await using var server = await HubServer.StartAsync();
        using var client = await RawClient.ConnectAsync(server.Address);
        await Until.TrueAsync(() => server.Connections == 1);

        await using (server.Output.BeginBufferingScope())
        {
            foreach (var text in Thousand)
                await server.Hub.Clients.All.SendAsync(TestHub.Receive, text);
        }

        Assert.Equal(1000, (await client.ReadMessageAsync()).Length);
        Assert.Equal(1, server.Counters.Writes);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Stock_clients_read_a_scope_in_order(bool isBinary)
    {
        await using var server = await HubServer.StartAsync();
        await using var client = await HubClientConnection.ConnectAsync(server.Address, isBinary);

        await client.Connection.InvokeAsync("Loop", 1000).WithinDeadline();

        await server.FlushAsync(client);
        Assert.Equal(Thousand, client.Texts);
        Assert.Equal(2, server.Counters.Writes);
    }

    [Theory]
    [InlineData(HttpTransportType.ServerSentEvents)]
    [InlineData(HttpTransportType.LongPolling)]
    public async Task A_scope_is_read_over_the_other_transports_too(HttpTransportType transport)
    {
        await using var server = await HubServer.StartAsync();
        await using var client = await HubClientConnection.ConnectAsync(server.Address, transport: transport);

        await client.Connection.InvokeAsync("Loop", 1000).WithinDeadline();

        await server.FlushAsync(client);
        Assert.Equal(Thousand, client.Texts);
    }

    [Fact]
    public async Task Output_for_groups_users_and_connections_keeps_its_order_in_an_ambient_scope()
    {
        await using var server = await HubServer.StartAsync();
        await using var client = await HubClientConnection.ConnectAsync(server.Address, user: "ann");
        await server.Hub.Groups.AddToGroupAsync(client.Id, "room");

        await using (server.Output.BeginBufferingScope())
        {
            for (var round = 0; round < 100; round++)
            {
                await server.Hub.Clients.All.SendAsync(TestHub.Receive, $"{round} all");
                await server.Hub.Clients.Group("room").SendAsync(TestHub.Receive, $"{round} group");
                await server.Hub.Clients.User("ann").SendAsync(TestHub.Receive, $"{round} user");
                await server.Hub.Clients.Client(client.Id).SendAsync(TestHub.Receive, $"{round} client");
            }
        }

        await server.FlushAsync(client);
        Assert.Equal(Enumerable.Range(0, 100).SelectMany(static round => new[] { $"{round} all", $"{round} group", $"{round} user", $"{round} client" }), client.Texts);
        Assert.Equal(2, server.Counters.Writes);
    }

    [Fact]
    public async Task A_scope_on_a_groups_handle_holds_back_that_group_alone()
    {
        await using var server = await HubServer.StartAsync();
        await using var client = await HubClientConnection.ConnectAsync(server.Address);
        await server.Hub.Groups.AddToGroupAsync(client.Id, "room");

        await using (server.Output.BeginBufferingScope(HubHandles.Group<TestHub>("room")))
        {
            await server.Hub.Clients.Group("room").SendAsync(TestHub.Receive, "first");
            await server.Hub.Clients.Group("room").SendAsync(TestHub.Receive, "second");
            await server.FlushAsync(client);
            Assert.Empty(client.Texts);
        }

        await server.FlushAsync(client);
        Assert.Equal(["first", "second"], client.Texts);
        Assert.Equal(3, server.Counters.Writes);
    }

    [Fact]
    public async Task Without_a_scope_a_sent_message_arrives_before_the_methods_result()
    {
        await using var server = await HubServer.StartAsync();
        using var client = await RawClient.ConnectAsync(server.Address);

        for (var number = 1; number <= 50; number++)
        {
            await client.SendAsync($"{{\"type\":1,\"invocationId\":\"1\",\"target\":\"SendThenReturn\",\"arguments\":[{number}]}}\u001e");
            var records = await client.ReadMessageAsync();
            if (records.Length == 1)
                records = [.. records, .. await client.ReadMessageAsync()];
            Assert.Contains(TestHub.Receive, records[0], StringComparison.Ordinal);
            Assert.Contains("\"type\":3", records[1], StringComparison.Ordinal);
        }
    }

    [Fact]
    public async Task Who_joins_a_group_within_a_scope_gets_what_is_sent_to_it_from_then_on()
    {
        await using var server = await HubServer.StartAsync();
        await using var early = await HubClientConnection.ConnectAsync(server.Address);
        await using var late = await HubClientConnection.ConnectAsync(server.Address);
        await server.Hub.Groups.AddToGroupAsync(early.Id, "room");

        await using (server.Output.BeginBufferingScope())
        {
            await server.Hub.Clients.Group("room").SendAsync(TestHub.Receive, "before");
            await server.Hub.Groups.AddToGroupAsync(late.Id, "room");
            await server.Hub.Groups.RemoveFromGroupAsync(early.Id, "room");
            await server.Hub.Clients.Group("room").SendAsync(TestHub.Receive, "after");
        }

        await server.FlushAsync(early, late);
        Assert.Equal(["before"], early.Texts);
        Assert.Equal(["after"], late.Texts);
    }

    [Fact]
    public async Task A_change_of_a_group_and_a_call_within_an_ambient_scope_keep_the_order_of_its_flow()
    {
        await using var server = await HubServer.StartAsync();
        await using var client = await HubClientConnection.ConnectAsync(server.Address, user: "ann", configure: static connection => connection.On("Ask", static () => 1));
        await server.Hub.Groups.AddToGroupAsync(client.Id, "room");

        await using (server.Output.BeginBufferingScope())
        {
            await server.Hub.Clients.All.SendAsync(TestHub.Receive, "1");
            await server.Hub.Clients.Group("room").SendAsync(TestHub.Receive, "2");
            await server.Hub.Groups.AddToGroupAsync(client.Id, "room").WithinDeadline();
            await server.Hub.Clients.Group("room").SendAsync(TestHub.Receive, "3");
            await server.Hub.Clients.User("ann").SendAsync(TestHub.Receive, "4");
            await server.Hub.Clients.Client(client.Id).InvokeAsync<int>("Ask", CancellationToken.None).WithinDeadline();
            Assert.Equal(["1", "2", "3", "4"], client.Texts);
            await server.Hub.Clients.All.SendAsync(TestHub.Receive, "5");
        }

        await server.FlushAsync(client);
        Assert.Equal(["1", "2", "3", "4", "5"], client.Texts);
    }
}

using System.Text.Json;
using System.Text.Json.Serialization;
using BatchKit.SignalR.Tests.Support;
using MessagePack;
using MessagePack.Formatters;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Client;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace BatchKit.SignalR.Tests;

/// <summary>Two servers over a backplane.</summary>
public sealed class BackplaneTests
{
    [Fact]
    public async Task A_scope_is_one_frame_and_one_write_for_each_client_in_order()
    {
        var bus = new FrameBus();
        await using var server = await HubServer.StartAsync(bus.Join);
        await using var other = await HubServer.StartAsync(bus.Join);
        await using var near = await HubClientConnection.ConnectAsync(server.Address);
        await using var far = await HubClientConnection.ConnectAsync(other.Address);

        await using (server.Output.BeginBufferingScope())
        {
            for (var number = 0; number < 1000; number++)
                await server.Hub.Clients.All.SendAsync(TestHub.Receive, $"{number}");
        }

        await Until.TrueAsync(() => far.Texts.Length == 1000 && near.Texts.Length == 1000);
        Assert.Equal(1, bus.Frames);
        Assert.Equal(1, server.Counters.Writes);
        Assert.Equal(1, other.Counters.Writes);
        Assert.Equal(Enumerable.Range(0, 1000).Select(static number => $"{number}"), near.Texts);
        Assert.Equal(near.Texts, far.Texts);
    }

    [Fact]
    public async Task Output_for_a_connection_on_this_server_does_not_go_over_the_backplane()
    {
        var bus = new FrameBus();
        await using var server = await HubServer.StartAsync(bus.Join);
        await using var client = await HubClientConnection.ConnectAsync(server.Address);

        await server.Hub.Groups.AddToGroupAsync(client.Id, "room");
        await server.Hub.Clients.Client(client.Id).SendAsync(TestHub.Receive, "hello");

        await client.WaitForAsync("hello");
        Assert.Equal(0, bus.Frames);
    }

    [Fact]
    public async Task A_call_from_a_server_without_the_clients_protocol_fails()
    {
        var bus = new FrameBus();
        await using var server = await HubServer.StartAsync(bus.Join, services: static services => services.Configure<HubOptions<TestHub>>(static options => options.SupportedProtocols = ["json"]));
        await using var other = await HubServer.StartAsync(bus.Join);
        await using var client = await HubClientConnection.ConnectAsync(other.Address, isBinary: true);

        var error = await Assert.ThrowsAsync<HubException>(() => server.Hub.Clients.Client(client.Id).InvokeAsync<int>("Add", 1, CancellationToken.None).WithinDeadline());

        Assert.Contains("messagepack", error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_change_of_a_group_does_not_wait_for_a_backplane_that_is_away()
    {
        var (bus, back) = (new FrameBus(), new TaskCompletionSource());
        await using var server = await HubServer.StartAsync(builder => bus.Join(builder, back.Task));
        await using var client = await HubClientConnection.ConnectAsync(server.Address);

        var before = server.Hub.Clients.Group("room").SendAsync(TestHub.Receive, "before");
        await server.Hub.Groups.AddToGroupAsync(client.Id, "room").WithinDeadline();
        var after = server.Hub.Clients.Group("room").SendAsync(TestHub.Receive, "after");

        await client.WaitForAsync("after");
        Assert.Equal(["after"], client.Texts);
        Assert.False(before.IsCompleted);
        back.SetResult();
        await Task.WhenAll(before, after).WithinDeadline();
    }

    [Fact]
    public async Task Answers_to_another_server_wait_for_capacity()
    {
        var (bus, back) = (new FrameBus(), new TaskCompletionSource());
        await using var server = await HubServer.StartAsync(bus.Join, static options => options.ServerTimeout = TimeSpan.FromMinutes(10));
        await using var other = await HubServer.StartAsync(
            builder => bus.Join(builder, back.Task),
            services: static services => services.Configure<OutputBufferOptions>(static options => (options.MaxBufferedBytes, options.MaxMessageBytes) = (4096, 1024)));
        await using var client = await HubClientConnection.ConnectAsync(other.Address, configure: static connection => connection.On("Add", static (int addend) => Task.FromResult(addend + 1)));
        var group = 0;
        while (other.Output.TryWrite(HubHandles.Group<TestHub>($"{group++}"), [0]))
            continue;

        var join = server.Hub.Groups.AddToGroupAsync(client.Id, "room");
        var call = server.Hub.Clients.Client(client.Id).InvokeAsync<int>("Add", 42, CancellationToken.None);
        await server.Hub.Clients.Client(client.Id).SendAsync(TestHub.Receive, "asked");
        await client.WaitForAsync("asked");
        back.SetResult();

        await join.WithinDeadline();
        Assert.Equal(43, await call.WithinDeadline());
    }

    [Fact]
    public async Task A_result_that_is_too_large_for_the_buffer_is_an_error_for_the_caller()
    {
        var bus = new FrameBus();
        await using var server = await HubServer.StartAsync(bus.Join);
        await using var other = await HubServer.StartAsync(bus.Join, services: static services => services.Configure<OutputBufferOptions>(static options => options.MaxMessageBytes = 1024));
        await using var client = await HubClientConnection.ConnectAsync(other.Address, configure: static connection => connection.On("Tell", static () => Task.FromResult(new string('x', 2000))));

        var error = await Assert.ThrowsAsync<HubException>(() => server.Hub.Clients.Client(client.Id).InvokeAsync<string>("Tell", CancellationToken.None).WithinDeadline());

        Assert.Contains("MaxMessageBytes", error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task An_argument_that_sends_to_another_client_while_it_is_encoded_mixes_nothing()
    {
        await using var server = await HubServer.StartAsync();
        await using var ann = await HubClientConnection.ConnectAsync(server.Address);
        await using var bob = await HubClientConnection.ConnectAsync(server.Address);
        var argument = new Telling("for Ann, who gets nothing else", () => _ = server.Hub.Clients.Client(bob.Id).SendAsync(TestHub.Receive, "for Bob"));

        await server.Hub.Clients.Client(ann.Id).SendAsync(TestHub.Receive, argument);
        await server.Hub.Clients.Client(ann.Id).SendAsync(TestHub.Receive, "end");

        await ann.WaitForAsync("end");
        await bob.WaitForAsync("for Bob");
        Assert.Equal(["for Ann, who gets nothing else", "end"], ann.Texts);
        Assert.All(bob.Texts, static text => Assert.Equal("for Bob", text));
    }

    [Fact]
    public async Task A_message_that_one_protocol_can_not_encode_reaches_the_clients_with_the_other()
    {
        var (bus, log) = (new FrameBus(), new LogCollector());
        await using var server = await HubServer.StartAsync(bus.Join, services: services => services.AddSingleton<ILoggerProvider>(log));
        await using var other = await HubServer.StartAsync(bus.Join);
        await using var near = await HubClientConnection.ConnectAsync(server.Address, configure: Echo);
        await using var far = await HubClientConnection.ConnectAsync(other.Address, configure: Echo);
        await using var binary = await HubClientConnection.ConnectAsync(server.Address, isBinary: true, configure: Echo);

        await server.Hub.Clients.Client(near.Id).SendAsync(TestHub.Receive, new JsonAlone("one"));
        await server.Hub.Clients.All.SendAsync(TestHub.Receive, new JsonAlone("all"));
        foreach (var client in new[] { near, far })
            Assert.Equal("asked", await server.Hub.Clients.Client(client.Id).InvokeAsync<string>("Echo", new JsonAlone("asked"), CancellationToken.None).WithinDeadline());

        await server.FlushAsync(near, far, binary);
        Assert.Equal([["one", "all"], ["all"], []], new[] { near.Texts, far.Texts, binary.Texts });
        Assert.True(log.Count(2802) > 0);
        await Assert.ThrowsAnyAsync<Exception>(() => server.Hub.Clients.Client(binary.Id).SendAsync(TestHub.Receive, new JsonAlone("none")).WithinDeadline());

        static void Echo(HubConnection connection) => connection.On("Echo", static (string text) => text);
    }

    [Fact]
    public async Task Output_of_a_buffer_that_is_no_hubs_is_refused()
    {
        await using var server = await HubServer.StartAsync();

        server.Output.Write(OutputHandle.Named("room"), "hello");

        await Assert.ThrowsAsync<OutputDeliveryException>(() => server.Output.FlushAsync(OutputHandle.Named("room")).WithinDeadline());
        Assert.Equal(1, server.Output.GetStatistics().FailedMessages);
    }

    [Fact]
    public void A_second_buffer_for_hubs_is_refused()
    {
        var signalR = new ServiceCollection().AddSignalR().AddBatchKit();

        Assert.Throws<InvalidOperationException>(() => signalR.AddBatchKit(name: "another"));
    }

    [Fact]
    public void The_applications_own_buffer_is_used_when_it_is_registered()
    {
        var services = new ServiceCollection();
        services.AddBatchKit(options => options.Node = 7);

        services.AddSignalR().AddBatchKit();

        using var provider = services.AddLogging().BuildServiceProvider();
        Assert.Equal(7, provider.GetRequiredService<NodeNumber>().Value);
        Assert.NotNull(provider.GetRequiredService<IOutputBuffer>());
    }
}

/// <summary>A text that MessagePack can't encode, because the type is internal.</summary>
[JsonConverter(typeof(JsonAloneJson))]
internal sealed record JsonAlone(string Text);

internal sealed class JsonAloneJson : JsonConverter<JsonAlone>
{
    public override JsonAlone Read(ref Utf8JsonReader reader, Type typeToConvert, JsonSerializerOptions options) => throw new NotSupportedException();

    public override void Write(Utf8JsonWriter writer, JsonAlone value, JsonSerializerOptions options) => writer.WriteStringValue(value.Text);
}

/// <summary>A text that does something whenever it is encoded.</summary>
[JsonConverter(typeof(TellingJson))]
[MessagePackFormatter(typeof(TellingMessagePack))]
public sealed record Telling(string Text, Action Encoding);

public sealed class TellingJson : JsonConverter<Telling>
{
    public override Telling Read(ref Utf8JsonReader reader, Type typeToConvert, JsonSerializerOptions options) => throw new NotSupportedException();

    public override void Write(Utf8JsonWriter writer, Telling value, JsonSerializerOptions options)
    {
        value.Encoding();
        writer.WriteStringValue(value.Text);
    }
}

public sealed class TellingMessagePack : IMessagePackFormatter<Telling?>
{
    public Telling Deserialize(ref MessagePackReader reader, MessagePackSerializerOptions options) => throw new NotSupportedException();

    public void Serialize(ref MessagePackWriter writer, Telling? value, MessagePackSerializerOptions options)
    {
        value!.Encoding();
        writer.Write(value.Text);
    }
}

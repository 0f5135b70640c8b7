using BatchKit.Testing;
using BatchKit.TestServers.Network;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>The transport and the receiver as a host runs them.</summary>
public sealed class RabbitMqHostTests(RabbitMqFixture fixture)
{
    private readonly RabbitMqTestHost _hosts = new();

    [Fact]
    public async Task One_scope_is_one_message_on_the_wire()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        var wire = await probe.ListenAsync(options, "1");
        using var host = await _hosts.StartAsync(server, options.Prefix);
        var output = host.Services.GetRequiredService<IOutputBuffer>();
        var handle = Some.Connection(node: 1);

        await using (output.BeginBufferingScope(handle))
        {
            foreach (var line in Some.Lines(1000))
                output.Write(handle, Some.Bytes(line));
            output.Write(handle, "> "u8, new MessageHeader { Kind = MessageKind.Prompt });
        }

        await _hosts.Arrived.WaitForMessagesAsync(1001);
        await host.StopAsync();
        Assert.Equal(1u, await probe.CountAsync(wire));
        Assert.Equal([.. Some.Lines(1000), "> "], _hosts.Arrived.Texts);
    }

    [Fact]
    public async Task A_thousand_writes_outside_a_scope_are_far_fewer_messages_in_order()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        var wire = await probe.ListenAsync(options, "1");
        using var host = await _hosts.StartAsync(server, options.Prefix);
        var output = host.Services.GetRequiredService<IOutputBuffer>();
        var handle = Some.Connection(node: 1);

        foreach (var line in Some.Lines(1000))
            output.Write(handle, Some.Bytes(line));
        await _hosts.Arrived.WaitForMessagesAsync(1000);

        await host.StopAsync();
        Assert.InRange(await probe.CountAsync(wire), 1u, 200u);
        Assert.Equal(Some.Lines(1000), _hosts.Arrived.Texts);
    }

    [Fact]
    public async Task Output_for_this_node_stays_in_process_and_a_group_reaches_both_nodes_once()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        var local = new CollectingTransport();
        using var far = await _hosts.StartAsync(server, options.Prefix, node: 2);
        using var near = await _hosts.StartAsync(server, options.Prefix, node: 1, configure: builder => builder.UseLocal(_ => local), receives: local);
        var output = near.Services.GetRequiredService<IOutputBuffer>();

        output.Write(Some.Connection(node: 1), "near"u8);
        output.Write(Some.Group(), "group"u8);
        output.Write(Some.Connection(node: 2), "far"u8);
        await output.FlushAsync();
        await _hosts.Arrived.WaitForMessagesAsync(2);

        // Once the receiver has stopped, whatever its own queue held has been taken, the group's frame among it.
        await near.StopAsync();
        Assert.Equal(new[] { "group", "far" }, _hosts.Arrived.Texts);
        Assert.Equal(new[] { "group", "near" }, local.Texts.Order(StringComparer.Ordinal).ToArray());
    }

    [Fact]
    public async Task Input_travels_to_the_game_by_the_same_parts_and_keeps_the_players_handle()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        using var game = await _hosts.StartAsync(server, options.Prefix, node: 1);
        using var gateway = await _hosts.StartAsync(server, options.Prefix, node: 2, receives: new CollectingTransport(), rabbit: rabbit => rabbit.DestinationNode = 1);
        var player = Some.Connection(node: 2);

        gateway.Services.GetRequiredService<IOutputBuffer>().Write(player, "look"u8);
        await _hosts.Arrived.WaitForMessagesAsync(1);

        Assert.Equal(player, Assert.Single(_hosts.Arrived.Messages).Handle);
    }

    [Fact]
    public async Task Output_for_a_node_that_is_gone_is_reported_to_who_flushes_and_counted_as_failed()
    {
        using var host = await _hosts.StartAsync(await fixture.GetAsync(), Some.Name("test"), rabbit: rabbit => rabbit.UnroutableGrace = TimeSpan.Zero);
        var output = host.Services.GetRequiredService<IOutputBuffer>();
        var gone = Some.Connection(node: 9);

        // Held, because output that has failed before the flush is no longer pending, and no concern of it.
        using var scope = output.BeginBufferingScope(gone);
        output.Write(gone, "lost"u8);
        output.Write(Some.Connection(node: 1), "here"u8);
        await Assert.ThrowsAsync<OutputDeliveryException>(async () => await output.FlushAsync(gone));
        await _hosts.Arrived.WaitForMessagesAsync(1);

        Assert.Equal(1, output.GetStatistics().FailedMessages);
    }

    [Fact]
    public async Task A_stop_sends_what_is_pending()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        var wire = await probe.ListenAsync(options, "1");
        using var host = await _hosts.StartAsync(server, options.Prefix);
        var output = host.Services.GetRequiredService<IOutputBuffer>();
        var handle = Some.Connection(node: 1);
        output.BeginBufferingScope(handle);
        foreach (var line in Some.Lines(10_000))
            output.Write(handle, Some.Bytes(line));

        await host.StopAsync().WithinDeadline();

        var frames = await probe.TakeFramesAsync(wire);
        Assert.Equal(Some.Lines(10_000), frames.SelectMany(frame => frame.Texts).ToArray());
        Assert.Equal(10_000, output.GetStatistics().AcknowledgedMessages);
    }

    [Fact]
    public async Task A_stop_with_the_broker_down_logs_what_was_left()
    {
        var port = FreePort.Take(1)[0];
        using var host = _hosts.Build("test", rabbit => rabbit.Hosts = [$"127.0.0.1:{port}"], output: buffer => buffer.DrainTimeout = TimeSpan.FromMilliseconds(100));
        await host.StartAsync();
        host.Services.GetRequiredService<IOutputBuffer>().Write(Some.Connection(node: 1), "left"u8);

        await host.StopAsync().WithinDeadline();

        Assert.Contains("1 messages not sent", _hosts.Log.Text, StringComparison.Ordinal);
    }
}

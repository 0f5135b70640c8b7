using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>What a buffer's scopes and unscoped writes are on the broker, with one partition.</summary>
public sealed class RabbitMqScopeTests(RabbitMqFixture fixture)
{
    [Fact]
    public async Task A_scope_over_a_thousand_long_lines_is_one_message_on_the_broker_and_none_before_it_closes()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        var (queue, markers) = (await probe.ListenAsync(options, "1"), await probe.ListenAsync(options, "2"));
        await using var transport = new RabbitMqTransport(options);
        await using var output = new OutputBuffer(transport);
        var (player, marker) = (Some.Connection(1), Some.Connection(2));
        var lines = Some.Lines(1000).Select(static line => line.PadRight(187)).ToArray();

        uint whileOpen;
        await using (output.BeginBufferingScope(player))
        {
            foreach (var line in lines)
                output.Write(player, Some.Bytes(line));
            // The partition sends in order: when the broker has this one, it has all that was sent before.
            output.Write(marker, Some.Bytes("marker"));
            await output.FlushAsync(marker).WithinDeadline();
            whileOpen = await probe.CountAsync(queue);
        }

        var frames = await probe.TakeFramesAsync(queue);
        Assert.Equal(1u, await probe.CountAsync(markers));
        Assert.Equal(lines, frames.SelectMany(static frame => frame.Texts).ToArray());
        Assert.Equal((0u, 1), (whileOpen, frames.Count));
    }

    [Fact]
    public async Task Order_holds_across_handles_for_what_is_written_while_a_send_is_under_way()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync());
        var arrived = new CollectingTransport();
        await using var receiver = await RabbitMqEnds.StartAsync(options, arrived);
        await using var transport = new RabbitMqTransport(options);
        var sending = new ScriptedTransport(transport);
        var underWay = sending.Stall();
        await using var output = new OutputBuffer(sending);
        var (room, player) = (Some.Group(), Some.Connection(RabbitMqEnds.Node));

        output.Write(player, Some.Bytes("under way"));
        await underWay.EnteredAsync();
        output.Write(room, Some.Bytes("a"));
        output.Write(player, Some.Bytes("X"));
        output.Write(room, Some.Bytes("b"));
        underWay.Release();

        await arrived.WaitForMessagesAsync(4);
        Assert.Equal(["under way", "a", "X", "b"], arrived.Texts);
    }
}

using System.Collections.Immutable;
using BatchKit.Testing;
using BatchKit.Tests.Schedules;

namespace BatchKit.Tests.Buffering;

/// <summary>The order across handles of one partition: output for names keeps it with all other output.</summary>
public sealed class OrderTests
{
    private static readonly TimeSpan Linger = TimeSpan.FromMilliseconds(20);

    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly OutputHandle _room = Some.Group();
    private readonly OutputHandle _player = Some.Connection();

    /// <summary>What holds the output back while it is written.</summary>
    public enum Held
    {
        BySend,
        ByLinger,
        ByAmbientScope,
    }

    [Theory]
    [InlineData(Held.BySend)]
    [InlineData(Held.ByLinger)]
    [InlineData(Held.ByAmbientScope)]
    public Task A_prompt_stays_between_the_lines_of_its_room(Held held) => ArrivesInOrderAsync(
        held,
        [(_room, "a", null), (_player, "> ", MessageHeader.Prompt), (_room, "b", null), (_player, "> again ", MessageHeader.Prompt), (_room, "c", null)]);

    [Theory]
    [InlineData(Held.BySend)]
    [InlineData(Held.ByLinger)]
    [InlineData(Held.ByAmbientScope)]
    public Task A_players_lines_stay_on_both_sides_of_the_rooms(Held held) =>
        ArrivesInOrderAsync(held, [(_player, "x", null), (_room, "a", null), (_player, "y", null)]);

    [Theory]
    [InlineData(Held.BySend)]
    [InlineData(Held.ByLinger)]
    [InlineData(Held.ByAmbientScope)]
    public Task Groups_keep_their_order_among_each_other(Held held)
    {
        var other = Some.Group();
        return ArrivesInOrderAsync(held, [(_room, "a", null), (other, "b", null), (_room, "c", null), (other, "d", null)]);
    }

    [Theory]
    [InlineData(Held.BySend)]
    [InlineData(Held.ByLinger)]
    [InlineData(Held.ByAmbientScope)]
    public Task A_player_who_joins_a_group_gets_what_is_written_after_that(Held held)
    {
        var join = new MessageHeader { Kind = MessageKind.Control };
        return ArrivesInOrderAsync(held, [(_room, "before", null), (_player, "joins", join), (_room, "after", null), (_player, "leaves", join), (_room, "without", null)]);
    }

    [Theory]
    [InlineData(Held.BySend)]
    [InlineData(Held.ByLinger)]
    [InlineData(Held.ByAmbientScope)]
    public Task Any_mix_of_groups_and_one_connection_arrives_as_it_was_written(Held held)
    {
        var random = new Random(7);
        OutputHandle[] handles = [_player, _room, Some.Group(), Some.Group()];
        return ArrivesInOrderAsync(held, [.. Enumerable.Range(0, 500).Select(line => (handles[random.Next(handles.Length)], $"line {line}", (MessageHeader?)null))]);
    }

    [Theory]
    [InlineData(Held.BySend)]
    [InlineData(Held.ByLinger)]
    [InlineData(Held.ByAmbientScope)]
    public async Task Each_of_several_routes_keeps_the_order(Held held)
    {
        var other = new CollectingTransport();
        var (transport, otherTransport) = (new ScriptedTransport(_arrived), new ScriptedTransport(other));
        var (stalled, otherStalled) = (transport.Stall(), otherTransport.Stall());
        OutputRoute[] routes = [new("first", transport), new("second", otherTransport)];
        await using var buffer = new OutputBuffer(routes, new BothRoutes(), OptionsFor(held), timeProvider: _clock);
        var lines = Enumerable.Range(0, 100).Select(line => (Handle: line % 3 == 0 ? _player : _room, Text: $"line {line}")).ToArray();
        buffer.Write(_room, "under way");
        _clock.Advance(Linger);
        await Task.WhenAll(stalled.EnteredAsync(), otherStalled.EnteredAsync());

        await WriteAsync(buffer, held, [.. lines.Select(line => (line.Handle, line.Text, (MessageHeader?)null))]);
        stalled.Release();
        otherStalled.Release();
        await buffer.FlushAsync().WithinDeadline();

        Assert.Equal(["under way", .. lines.Select(line => line.Text)], _arrived.Texts);
        Assert.Equal(_arrived.Texts, other.Texts);
    }

    [Fact]
    public async Task What_joins_a_batch_overtakes_nothing_on_a_route_that_took_the_batch_at_once()
    {
        var scheduler = new QueuedScheduler();
        OutputRoute[] routes = [new("slow", new CollectingTransport(sendsWithoutBlocking: false)), new("slower", new CollectingTransport(sendsWithoutBlocking: false)), new("inline", _arrived)];
        await using var buffer = new OutputBuffer(routes, new RoutesOfName(), new OutputBufferOptions(), "", _clock, logger: null, meterFactory: null, scheduler);
        // The pooled batches have had high places on another route.
        for (var group = 0; group < 10; group++)
            buffer.Write(OutputHandle.Named($"slow+slower/{group}"), "before");
        RunAll();

        buffer.Write(OutputHandle.Named("slow+inline/room"), "line 0");
        buffer.Write(OutputHandle.Named("inline/other"), "line 1");
        buffer.Write(OutputHandle.Named("slow+inline/room"), "line 2");
        RunAll();

        Assert.Equal(Some.Lines(3), _arrived.Texts);

        void RunAll()
        {
            while (scheduler.Waiting > 0)
                scheduler.Run(0);
        }
    }

    [Fact]
    public async Task Connections_among_themselves_share_batches()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, timeProvider: _clock);
        OutputHandle[] players = [Some.Connection(), Some.Connection()];
        buffer.Write(_player, "under way");
        await stalled.EnteredAsync();

        for (var line = 0; line < 100; line++)
            buffer.Write(players[line % 2], $"line {line}");
        stalled.Release();
        await buffer.FlushAsync().WithinDeadline();

        Assert.Equal([1, 2], _arrived.BatchesOfSends);
        Assert.Equal(50, _arrived.MessagesFor(players[0]).Count);
    }

    private async Task ArrivesInOrderAsync(Held held, (OutputHandle Handle, string Text, MessageHeader? Header)[] lines)
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, OptionsFor(held), timeProvider: _clock);
        buffer.Write(_room, "under way");
        _clock.Advance(Linger);
        await stalled.EnteredAsync();

        await WriteAsync(buffer, held, lines);
        stalled.Release();
        await buffer.FlushAsync().WithinDeadline();

        Assert.Equal(["under way", .. lines.Select(line => line.Text)], _arrived.Texts);
    }

    private async Task WriteAsync(OutputBuffer buffer, Held held, (OutputHandle Handle, string Text, MessageHeader? Header)[] lines)
    {
        using var scope = held == Held.ByAmbientScope ? buffer.BeginBufferingScope() : default;
        await Task.Yield();
        foreach (var (handle, text, header) in lines)
            buffer.Write(handle, Some.Bytes(text), header);
        if (held == Held.ByLinger)
            _clock.Advance(Linger);
    }

    private static OutputBufferOptions OptionsFor(Held held) => new() { Linger = held == Held.ByLinger ? Linger : TimeSpan.Zero };

    private sealed class RoutesOfName : IOutputRouter
    {
        public ImmutableArray<string> GetRoutes(OutputHandle handle) => [.. handle.Name!.Split('/')[0].Split('+')];
    }

    private sealed class BothRoutes : IOutputRouter
    {
        public ImmutableArray<string> GetRoutes(OutputHandle handle) => ["first", "second"];
    }
}

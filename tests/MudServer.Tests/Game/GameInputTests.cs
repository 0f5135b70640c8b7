using BatchKit.Testing;
using BatchKit.Transports;
using MudServer.Game;

namespace MudServer.Tests.Game;

public sealed class GameInputTests
{
    private static readonly ProducerId Producer = new(2, 1, 0);
    private static readonly ManualTimeProvider Clock = new();

    [Fact]
    public async Task What_a_full_queue_did_not_take_is_named_so_that_only_that_is_sent_again()
    {
        var input = new GameInput(discardsWhenStopped: false, Clock);
        using var cancellation = new CancellationTokenSource();
        var sending = input.SendAsync(Lines(20_000), cancellation.Token).AsTask();
        Assert.False(sending.IsCompleted);

        await cancellation.CancelAsync();
        var exception = await Assert.ThrowsAsync<BatchSendException>(() => sending.WithinDeadline());

        var taken = exception.Outcomes.Count(outcome => outcome == BatchOutcome.Acknowledged);
        Assert.InRange(taken, 1, 19_999);
        Assert.Equal(taken, exception.Outcomes.TakeWhile(outcome => outcome == BatchOutcome.Acknowledged).Count());
        input.Complete();
        var waiting = await input.ReadAllAsync().Select(batch => batch.Messages[0].Text).ToListAsync();
        Assert.Equal(Enumerable.Range(0, taken).Select(number => $"line {number}"), waiting);
    }

    [Fact]
    public async Task Connections_take_turns_however_many_lines_one_of_them_sends()
    {
        var input = new GameInput(discardsWhenStopped: false, Clock);
        await input.SendAsync(Lines(100), CancellationToken.None);
        await input.SendAsync(new[] { Line(OutputHandle.Connection(2, 5), "hello"), Line(OutputHandle.Connection(2, 6), "hi") }, CancellationToken.None);
        input.Complete();

        var texts = await input.ReadAllAsync().Select(batch => Assert.Single(batch.Messages).Text).ToListAsync();

        Assert.Equal(["line 0", "hello", "hi", "line 1", "line 2"], texts.Take(5));
        Assert.Equal(102, texts.Count);
    }

    [Fact]
    public async Task The_connection_that_has_used_the_least_time_comes_first()
    {
        var clock = new ManualTimeProvider();
        var input = new GameInput(discardsWhenStopped: false, clock);
        var (heavy, light) = (OutputHandle.Connection(2, 5), OutputHandle.Connection(2, 6));
        await input.SendAsync(new[] { Line(heavy, "heavy"), Line(heavy, "heavy"), Line(light, "light"), Line(light, "light"), Line(light, "light") }, CancellationToken.None);
        input.Complete();

        var texts = new List<string>();
        await foreach (var batch in input.ReadAllAsync())
        {
            texts.Add(batch.Messages[0].Text);
            clock.Advance(TimeSpan.FromMilliseconds(batch.Connection == heavy ? 100 : 1));
        }

        Assert.Equal(["heavy", "light", "light", "light", "heavy"], texts);
    }

    [Fact]
    public async Task Lines_wait_until_each_answer_of_their_connection_is_complete()
    {
        var input = new GameInput(discardsWhenStopped: false, Clock);
        var (connection, other) = (OutputHandle.Connection(2, 5), OutputHandle.Connection(2, 6));
        input.Pause(connection);
        input.Pause(connection);
        await input.SendAsync(new[] { Line(connection, "hello") }, CancellationToken.None);
        await using var lines = input.ReadAllAsync().GetAsyncEnumerator();

        input.Resume(connection);
        await input.SendAsync(new[] { Line(other, "hi") }, CancellationToken.None);
        await lines.MoveNextAsync();
        Assert.Equal("hi", lines.Current.Messages[0].Text);
        input.Resume(connection);
        await lines.MoveNextAsync();
        Assert.Equal("hello", lines.Current.Messages[0].Text);
    }

    [Fact]
    public async Task A_connection_waits_until_its_lines_are_taken_and_not_for_those_of_others()
    {
        var input = new GameInput(discardsWhenStopped: false, Clock);
        var (one, other) = (OutputHandle.Connection(2, 5), OutputHandle.Connection(2, 6));
        await input.SendAsync(new[] { Line(one, "one"), Line(other, "other"), Line(other, "other") }, CancellationToken.None);
        var taken = (One: input.WhenTakenAsync(one, CancellationToken.None), Other: input.WhenTakenAsync(other, CancellationToken.None));
        var isTakenBefore = taken.One.IsCompleted;

        await using var lines = input.ReadAllAsync().GetAsyncEnumerator();
        await lines.MoveNextAsync();

        Assert.False(isTakenBefore);
        await taken.One.WithinDeadline();
        Assert.False(taken.Other.IsCompleted);
        input.Complete();
        await taken.Other.WithinDeadline();
    }

    [Fact]
    public async Task Long_lines_fill_it_too()
    {
        var input = new GameInput(discardsWhenStopped: false, Clock);
        var lines = Enumerable.Range(0, 1000).Select(_ => Line(OutputHandle.Connection(2, 1), new string('x', 4000))).ToArray();
        using var cancellation = new CancellationTokenSource();

        var sending = input.SendAsync(lines, cancellation.Token).AsTask();
        var isFull = !sending.IsCompleted;
        await cancellation.CancelAsync();

        Assert.True(isFull);
        await Assert.ThrowsAsync<BatchSendException>(() => sending.WithinDeadline());
    }

    [Fact]
    public async Task A_node_that_starts_anew_overtakes_what_its_lost_connections_sent()
    {
        var input = new GameInput(discardsWhenStopped: false, Clock);
        var other = OutputHandle.Connection(3, 1);
        await input.SendAsync(Lines(10), CancellationToken.None);
        await input.SendAsync(new[] { Line(other, "other") }, CancellationToken.None);

        await input.SendAsync(new[] { Started(number: 99) }, CancellationToken.None);

        input.Complete();
        var kinds = await input.ReadAllAsync().Select(batch => (batch.Connection.Node, batch.Messages[0].Kind)).ToListAsync();
        Assert.Equal([(3, InputKind.Line), (2, InputKind.NodeStarted)], kinds);
    }

    [Fact]
    public async Task A_node_that_starts_twice_comes_before_its_new_connections_however_long_its_first_start_took()
    {
        var clock = new ManualTimeProvider();
        var input = new GameInput(discardsWhenStopped: false, clock);
        await input.SendAsync(new[] { Started(number: 1) }, CancellationToken.None);
        await using var lines = input.ReadAllAsync().GetAsyncEnumerator();
        await lines.MoveNextAsync();
        clock.Advance(TimeSpan.FromMilliseconds(100));

        await input.SendAsync(new[] { Started(number: 2), Line(OutputHandle.Connection(2, 5), "hello") }, CancellationToken.None);

        await lines.MoveNextAsync();
        Assert.Equal(InputKind.NodeStarted, lines.Current.Messages[0].Kind);
    }

    [Fact]
    public async Task A_stopped_game_leaves_input_to_the_next_one_where_a_broker_keeps_it()
    {
        var kept = new GameInput(discardsWhenStopped: false, Clock);
        var discarded = new GameInput(discardsWhenStopped: true, Clock);
        kept.Complete();
        discarded.Complete();

        await discarded.SendAsync(Lines(1), CancellationToken.None);

        await Assert.ThrowsAnyAsync<Exception>(() => kept.SendAsync(Lines(1), CancellationToken.None).AsTask());
    }

    [Fact]
    public async Task A_groups_output_that_a_broker_brings_along_is_nobodys_input()
    {
        var input = new GameInput(discardsWhenStopped: false, Clock);
        var group = MessageBatch.Create(OutputHandle.Named("room.1"), Producer, 1, new BatchMessage("Bob waves.\r\n"u8.ToArray()));

        await input.SendAsync(new[] { group }, CancellationToken.None);

        input.Complete();
        Assert.Empty(await input.ReadAllAsync().ToListAsync());
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(4)]
    public void A_notice_keeps_its_kind(int kind)
    {
        var message = new BatchMessage("text"u8.ToArray(), InputMessage.HeaderFor((InputKind)kind));

        Assert.Equal(new InputMessage((InputKind)kind, "text"), InputMessage.Read(message));
    }

    private static MessageBatch Started(long number) =>
        MessageBatch.Create(OutputHandle.Connection(2, 1), Producer, number, new BatchMessage(ReadOnlyMemory<byte>.Empty, InputMessage.HeaderFor(InputKind.NodeStarted)));

    private static MessageBatch Line(OutputHandle connection, string text) =>
        MessageBatch.Create(connection, Producer, 1, new BatchMessage(System.Text.Encoding.UTF8.GetBytes(text)));

    private static MessageBatch[] Lines(int count) =>
    [
        .. Enumerable.Range(0, count).Select(number => MessageBatch.Create(
            OutputHandle.Connection(2, 1), Producer, number + 1, new BatchMessage(System.Text.Encoding.UTF8.GetBytes($"line {number}")))),
    ];
}

using BatchKit.Transports;
using MudServer.Game;

namespace MudServer.Tests.Game;

public sealed class GameInputTests
{
    private static readonly ProducerId Producer = new(2, 1, 0);

    [Fact]
    public async Task What_a_full_queue_did_not_take_is_named_so_that_only_that_is_sent_again()
    {
        var input = new GameInput(discardsWhenStopped: false);
        using var cancellation = new CancellationTokenSource();
        var sending = input.SendAsync(Lines(2000), cancellation.Token).AsTask();
        Assert.False(sending.IsCompleted);

        await cancellation.CancelAsync();
        var exception = await Assert.ThrowsAsync<BatchSendException>(() => sending.WithinDeadline());

        var taken = exception.Outcomes.Count(outcome => outcome == BatchOutcome.Acknowledged);
        Assert.InRange(taken, 1, 1999);
        Assert.Equal(taken, exception.Outcomes.TakeWhile(outcome => outcome == BatchOutcome.Acknowledged).Count());
        input.Complete();
        var waiting = await input.ReadAllAsync().Select(batch => batch.Messages[0].Text).ToListAsync();
        Assert.Equal(Enumerable.Range(0, taken).Select(number => $"line {number}"), waiting);
    }

    [Fact]
    public async Task A_stopped_game_leaves_input_to_the_next_one_where_a_broker_keeps_it()
    {
        var kept = new GameInput(discardsWhenStopped: false);
        var discarded = new GameInput(discardsWhenStopped: true);
        kept.Complete();
        discarded.Complete();

        await discarded.SendAsync(Lines(1), CancellationToken.None);

        await Assert.ThrowsAnyAsync<Exception>(() => kept.SendAsync(Lines(1), CancellationToken.None).AsTask());
    }

    [Fact]
    public async Task A_groups_output_that_a_broker_brings_along_is_nobodys_input()
    {
        var input = new GameInput(discardsWhenStopped: false);
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

    private static MessageBatch[] Lines(int count) =>
    [
        .. Enumerable.Range(0, count).Select(number => MessageBatch.Create(
            OutputHandle.Connection(2, 1), Producer, number + 1, new BatchMessage(System.Text.Encoding.UTF8.GetBytes($"line {number}")))),
    ];
}

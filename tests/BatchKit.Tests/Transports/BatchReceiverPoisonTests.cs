using System.Globalization;
using System.Text;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Tests.Transports;

/// <summary>A typed handler that never takes one message of a batch: the receiver gives up that message alone.</summary>
public sealed class BatchReceiverPoisonTests
{
    private static readonly TimeSpan Timeout = TimeSpan.FromMinutes(2);

    private static readonly JsonMessageCodec Codec = new(SomeJson.Default);

    private readonly ManualTimeProvider _clock = new();
    private readonly LogCollector _log = new();
    private readonly OutputHandle _anna = Some.Connection();
    private readonly OutputHandle _ben = Some.Connection();
    private readonly ProducerId _producer = Some.Producer(node: 3);
    private readonly List<int> _handled = [];
    private readonly Dictionary<int, TimeSpan> _failsUntil = [];
    private readonly MessageDispatcher _dispatcher;

    public BatchReceiverPoisonTests() => _dispatcher = new MessageDispatcher(Codec).On<Moved>((_, moved, _) =>
    {
        if (_failsUntil.TryGetValue(moved.Room, out var until) && _clock.GetTimestamp() < until.Ticks)
            throw new InvalidOperationException($"No one takes {moved.Room}.");
        _handled.Add(moved.Room);
        return default;
    });

    [Fact]
    public async Task A_message_that_always_fails_is_refused_alone_and_its_neighbours_are_handled()
    {
        var receiver = Receiver(_dispatcher);
        Poison(3);

        await ReceiveAsync(receiver, To(_anna, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9));

        Assert.Equal([0, 1, 2, 4, 5, 6, 7, 8, 9], _handled);
        Assert.Equal(Timeout, TimeSpan.FromTicks(_clock.GetTimestamp()));
        Assert.Equal((Delivered: (1, 9), Refused: (0, 1)), Counted(receiver));
        Assert.Equal(0, receiver.GetStatistics().ConsecutiveFailures);
        var warning = Assert.Single(_log.Entries, entry => entry.Id == 205);
        Assert.Equal(LogLevel.Warning, warning.Level);
        Assert.Contains("No one takes 3.", warning.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task The_first_and_the_last_message_of_a_batch_are_given_up_alone_too()
    {
        var receiver = Receiver(_dispatcher);
        Poison(0, 2, 3);

        await ReceiveAsync(receiver, To(_anna, 1, 0, 1, 2));
        await ReceiveAsync(receiver, To(_anna, 2, 3), To(_anna, 3, 4));

        Assert.Equal([1, 4], _handled);
        Assert.Equal((Delivered: (2, 2), Refused: (1, 3)), Counted(receiver));
    }

    [Fact]
    public async Task Bad_messages_of_one_batch_hold_up_the_others_for_less_than_two_time_limits()
    {
        var receiver = Receiver(_dispatcher);
        int[] bad = [.. Enumerable.Range(0, 100)];
        Poison(bad);

        await ReceiveAsync(receiver, To(_anna, 1, bad), To(_anna, 2, 100));

        Assert.Equal([100], _handled);
        Assert.InRange(TimeSpan.FromTicks(_clock.GetTimestamp()), Timeout, 2 * Timeout);
        Assert.Equal((Delivered: (1, 1), Refused: (1, 100)), Counted(receiver));
    }

    [Fact]
    public async Task A_second_bad_message_has_half_of_the_time()
    {
        var receiver = Receiver(_dispatcher);
        Poison(1, 3);

        await ReceiveAsync(receiver, To(_anna, 1, 0, 1, 2, 3, 4));

        Assert.Equal([0, 2, 4], _handled);
        Assert.Equal(1.5 * Timeout, TimeSpan.FromTicks(_clock.GetTimestamp()));
    }

    [Fact]
    public async Task Another_handles_batches_arrive_and_the_same_handles_stay_behind_in_order()
    {
        var receiver = Receiver(_dispatcher);
        Poison(1);

        await ReceiveAsync(receiver, To(_anna, 1, 0, 1, 2), To(_anna, 2, 3), To(_ben, 3, 10));

        Assert.Equal([0, 10, 2, 3], _handled);
        Assert.Equal(Timeout, TimeSpan.FromTicks(_clock.GetTimestamp()));
        Assert.Equal((Delivered: (3, 4), Refused: (0, 1)), Counted(receiver));
    }

    [Fact]
    public async Task A_hop_in_front_of_the_dispatcher_changes_nothing()
    {
        var receiver = Receiver(new PassingTransport(_dispatcher));
        Poison(1);

        await ReceiveAsync(receiver, To(_anna, 1, 0, 1, 2));

        Assert.Equal([0, 2], _handled);
        Assert.Equal((Delivered: (1, 2), Refused: (0, 1)), Counted(receiver));
    }

    [Fact]
    public async Task A_batch_that_gets_further_within_each_time_limit_loses_nothing()
    {
        var receiver = Receiver(_dispatcher);
        for (var room = 0; room < 5; room++)
            _failsUntil[room] = 0.9 * (room + 1) * Timeout;

        await ReceiveAsync(receiver, To(_anna, 1, 0, 1, 2, 3, 4), To(_ben, 2, 5));

        Assert.Equal([0, 1, 2, 3, 4, 5], _handled.Order());
        Assert.Equal((Delivered: (2, 6), Refused: (0, 0)), Counted(receiver));
    }

    [Fact]
    public async Task Handlers_that_are_down_cost_no_more_than_one_batch_for_each_time_limit()
    {
        var receiver = Receiver(_dispatcher);
        for (var room = 0; room < 30; room++)
            _failsUntil[room] = 1.1 * Timeout;

        await ReceiveAsync(receiver, To(_anna, 1, [.. Enumerable.Range(0, 10)]), To(_ben, 2, [.. Enumerable.Range(10, 20)]));

        Assert.Equal(Enumerable.Range(1, 29), _handled);
        Assert.Equal((Delivered: (2, 29), Refused: (0, 1)), Counted(receiver));
    }

    [Fact]
    public async Task Messages_that_a_cancelled_receive_gave_up_are_not_counted_as_abandoned()
    {
        var receiver = Receiver(_dispatcher);
        Poison(1, 3);
        using var cancellation = new CancellationTokenSource();
        var receiving = receiver.ReceiveAsync(Some.Frame(To(_anna, 1, 0, 1, 2, 3, 4)), cancellation.Token).AsTask();
        while (receiver.GetStatistics().RefusedMessages == 0)
        {
            await _clock.WaitForTimersAsync().WithinDeadline();
            _clock.AdvanceToNextTimer();
        }

        await _clock.WaitForTimersAsync().WithinDeadline();
        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => receiving.WithinDeadline());
        var abandoned = receiver.GetStatistics();
        _failsUntil.Clear();
        await ReceiveAsync(receiver, To(_anna, 1, 0, 1, 2, 3, 4));

        Assert.Equal((5, 0, 1, 4), (abandoned.ReceivedMessages, abandoned.DeliveredMessages, abandoned.RefusedMessages, abandoned.AbandonedMessages));
        Assert.Equal([0, 2, 3, 4], _handled);
    }

    private static ((long, long) Delivered, (long, long) Refused) Counted(BatchReceiver receiver)
    {
        var statistics = receiver.GetStatistics();
        Assert.Equal(statistics.ReceivedMessages, statistics.DeliveredMessages + statistics.RefusedMessages);
        return ((statistics.DeliveredBatches, statistics.DeliveredMessages), (statistics.RefusedBatches, statistics.RefusedMessages));
    }

    private void Poison(params int[] rooms)
    {
        foreach (var room in rooms)
            _failsUntil[room] = TimeSpan.MaxValue;
    }

    private BatchReceiver Receiver(IBatchTransport next) => new(next, options: null, _clock, new Logger<BatchReceiver>(_log));

    private MessageBatch To(OutputHandle handle, long number, params int[] rooms) => MessageBatch.Create(
        handle, _producer, number, [.. rooms.Select(room => new BatchMessage(
            Encoding.UTF8.GetBytes(string.Create(CultureInfo.InvariantCulture, $$"""{"room":{{room}},"count":1}""")), Codec.GetHeader<Moved>()))]);

    // Moves the clock whenever the receiver pauses.
    private async Task ReceiveAsync(BatchReceiver receiver, params MessageBatch[] batches)
    {
        var receiving = receiver.ReceiveAsync(Some.Frame(batches), CancellationToken.None).AsTask();
        while (await Task.WhenAny(receiving, _clock.WaitForTimersAsync()) != receiving)
            _clock.AdvanceToNextTimer();
        await receiving;
    }

    /// <summary>Passes batches on, as a hop of an application's own does.</summary>
    private sealed class PassingTransport(IBatchTransport next) : IBatchTransport
    {
        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => next.SendAsync(batches, cancellationToken);
    }
}

using System.ComponentModel.DataAnnotations;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Tests.Transports;

public sealed class BatchReceiverTimeoutTests
{
    private static readonly TimeSpan Timeout = TimeSpan.FromMinutes(2);

    private readonly ManualTimeProvider _clock = new();
    private readonly CollectingTransport _collected = new();
    private readonly LogCollector _log = new();
    private readonly OutputHandle _anna = Some.Connection();
    private readonly OutputHandle _ben = Some.Connection();
    private readonly OutputHandle _carl = Some.Connection();
    private readonly ProducerId _producer = Some.Producer(node: 3);

    [Fact]
    public async Task A_batch_that_fails_alone_is_refused_after_its_time_and_its_neighbours_arrive()
    {
        var receiver = Receiver(FailOn("poison"));

        await ReceiveAsync(receiver, To(_anna, 1, "before"), To(_ben, 2, "poison", "and more"), To(_carl, 3, "after"));
        await ReceiveAsync(receiver, To(_anna, 4, "next frame"));

        Assert.Equal(["before", "after", "next frame"], _collected.Texts);
        Assert.Equal(Timeout, TimeSpan.FromTicks(_clock.GetTimestamp()));
        var statistics = receiver.GetStatistics();
        Assert.Equal((1, 2), (statistics.RefusedBatches, statistics.RefusedMessages));
        Assert.Equal((3, 3), (statistics.DeliveredBatches, statistics.DeliveredMessages));
        Assert.Equal(0, statistics.ConsecutiveFailures);
        var warning = Assert.Single(_log.Entries, entry => entry.Id == 203);
        Assert.Equal(LogLevel.Warning, warning.Level);
        Assert.Contains("1 received batches with 2 messages", warning.Text, StringComparison.Ordinal);
        Assert.Contains("No one takes poison.", warning.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task All_batches_that_fail_alone_beside_one_that_arrives_are_refused_at_once()
    {
        var receiver = Receiver(FailOn("poison"));

        await ReceiveAsync(receiver, To(_anna, 1, "poison"), To(_ben, 2, "poison"), To(_carl, 3, "good"));

        Assert.Equal(["good"], _collected.Texts);
        Assert.Equal(2, receiver.GetStatistics().RefusedBatches);
        Assert.Equal(Timeout, TimeSpan.FromTicks(_clock.GetTimestamp()));
        Assert.Equal(1, _log.Count(203));
    }

    [Fact]
    public async Task A_lone_batch_is_refused_after_its_time_and_later_frames_arrive()
    {
        var receiver = Receiver(FailOn("poison"));

        await ReceiveAsync(receiver, To(_anna, 1, "poison"));
        await ReceiveAsync(receiver, To(_anna, 1, "poison"), To(_ben, 2, "good"));

        Assert.Equal(["good"], _collected.Texts);
        Assert.Equal((1, 1), (receiver.GetStatistics().RefusedBatches, receiver.GetStatistics().DuplicateBatches));
        Assert.Equal(Timeout, TimeSpan.FromTicks(_clock.GetTimestamp()));
    }

    [Fact]
    public async Task A_next_hop_that_is_down_costs_one_batch_for_each_time_limit()
    {
        var backAt = (2 * Timeout) + (Timeout / 2);
        var receiver = Receiver(_ => ThrowIf(_clock.GetTimestamp() < backAt.Ticks, new IOException("Down.")));

        await ReceiveAsync(receiver, To(_anna, 1, "a"), To(_ben, 2, "b"), To(_carl, 3, "c"), To(_anna, 4, "d"));

        Assert.Equal(["c", "d"], _collected.Texts);
        Assert.Equal(2, receiver.GetStatistics().RefusedBatches);
        Assert.Equal(0, receiver.GetStatistics().ConsecutiveFailures);
    }

    [Fact]
    public async Task A_next_hop_that_comes_back_before_the_time_limit_costs_nothing()
    {
        var receiver = Receiver(_ => ThrowIf(_clock.GetTimestamp() < Timeout.Ticks, new IOException("Down.")));

        await ReceiveAsync(receiver, To(_anna, 1, "a"), To(_ben, 2, "b"));

        Assert.Equal(["a", "b"], _collected.Texts);
        Assert.Equal(0, receiver.GetStatistics().RefusedBatches);
    }

    [Fact]
    public async Task A_next_hop_that_comes_back_between_two_batches_gets_both()
    {
        var sendsAlone = 0;
        var receiver = Receiver(batches => ThrowIf(batches.Length > 1 || ++sendsAlone == 1, new IOException("Down.")));

        await ReceiveAsync(receiver, To(_anna, 1, "a"), To(_ben, 2, "b"));

        Assert.Equal(["b", "a"], _collected.Texts);
        Assert.Equal(0, receiver.GetStatistics().RefusedBatches);
    }

    [Fact]
    public async Task A_next_hop_that_breaks_between_two_batches_costs_nothing_behind_the_last_that_it_took()
    {
        var sendsAlone = 0;
        var receiver = Receiver(batches => ThrowIf(batches.Length == 3 || (batches.Length == 1 && ++sendsAlone > 1), new IOException("Down.")));

        await ReceiveAsync(receiver, To(_anna, 1, "a"), To(_ben, 2, "b"), To(_carl, 3, "c"));

        Assert.Equal(["a", "b", "c"], _collected.Texts);
        Assert.Equal(0, receiver.GetStatistics().RefusedBatches);
    }

    [Fact]
    public async Task A_handles_later_batches_stay_behind_its_earlier_ones()
    {
        var receiver = Receiver(FailOn("poison"));

        await ReceiveAsync(receiver, To(_anna, 1, "poison"), To(_anna, 2, "a2"), To(_ben, 3, "b3"), To(_anna, 4, "a4"));

        Assert.Equal(["b3", "a2", "a4"], _collected.Texts);
        Assert.Equal(1, receiver.GetStatistics().RefusedBatches);
    }

    [Fact]
    public async Task A_batch_that_is_left_while_its_neighbours_are_acknowledged_is_refused_after_its_time()
    {
        var receiver = Receiver(batches => throw new BatchSendException(
            [.. batches.Select(batch => batch.Number == 1 ? BatchOutcome.Unacknowledged : BatchOutcome.Acknowledged)], "All but the first."));

        await ReceiveAsync(receiver, To(_anna, 1, "a"), To(_ben, 2, "b"));

        Assert.Equal((1, 1), (receiver.GetStatistics().DeliveredBatches, receiver.GetStatistics().RefusedBatches));
        Assert.Equal(Timeout, TimeSpan.FromTicks(_clock.GetTimestamp()));
    }

    [Fact]
    public async Task A_next_hop_that_cancels_by_itself_does_not_end_the_receiver()
    {
        var receiver = Receiver(_ => ThrowIf(_clock.GetTimestamp() <= 3 * Timeout.Ticks, new OperationCanceledException("The hop's own limit.")));

        await ReceiveAsync(receiver, To(_anna, 1, "a"), To(_ben, 2, "b"));
        await ReceiveAsync(receiver, To(_anna, 3, "c"), To(_ben, 4, "d"));

        Assert.Equal(["d"], _collected.Texts);
        Assert.Equal(3, receiver.GetStatistics().RefusedBatches);
    }

    [Fact]
    public async Task The_time_limit_goes_on_when_a_frame_is_abandoned_and_received_again()
    {
        var receiver = Receiver(FailOn("poison"), new BatchReceiverOptions { RetryDelay = TimeSpan.FromSeconds(10), MaxRetryDelay = TimeSpan.FromSeconds(10) });
        using var cancellation = new CancellationTokenSource();
        var abandoned = receiver.ReceiveAsync(Some.Frame(To(_anna, 1, "poison")), cancellation.Token).AsTask();
        await _clock.WaitForTimersAsync();
        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => abandoned.WithinDeadline());
        _clock.Advance(Timeout - TimeSpan.FromSeconds(1));

        await ReceiveAsync(receiver, To(_anna, 1, "poison"));

        Assert.Equal(Timeout, TimeSpan.FromTicks(_clock.GetTimestamp()));
        Assert.Equal(1, receiver.GetStatistics().RefusedBatches);
    }

    [Fact]
    public async Task A_cancelled_isolation_remembers_what_the_next_hop_took_and_leaves_the_rest()
    {
        using var cancellation = new CancellationTokenSource();
        var isFailing = true;
        var receiver = Receiver(batches =>
        {
            ThrowIf(isFailing && (batches.Length > 1 || TextOf(batches[0]) == "bad"), new IOException("Not now."));
            if (isFailing && TextOf(batches[0]) == "c")
                cancellation.Cancel();
            ThrowIf(isFailing && cancellation.IsCancellationRequested, new OperationCanceledException(cancellation.Token));
        });
        MessageBatch[] batches = [To(_anna, 1, "a"), To(_ben, 2, "bad"), To(_carl, 3, "c"), To(_anna, 4, "d")];

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => ReceiveAsync(receiver, cancellation.Token, batches));
        isFailing = false;
        await ReceiveAsync(receiver, batches);

        Assert.Equal(["a", "bad", "c", "d"], _collected.Texts);
        var statistics = receiver.GetStatistics();
        Assert.Equal((4, 0, 3), (statistics.DeliveredBatches, statistics.RefusedBatches, statistics.AbandonedBatches));
    }

    [Fact]
    public async Task A_logger_that_throws_stops_nothing()
    {
        var receiver = new BatchReceiver(new DecidingTransport(_collected, FailOn("poison")), options: null, _clock, new Logger<BatchReceiver>(new ThrowingLoggerFactory(polite: 0)));

        await ReceiveAsync(receiver, To(_anna, 1, "poison"), To(_ben, 2, "b"));
        await ReceiveAsync(receiver, To(_ben, 3, "c"));

        Assert.Equal(["b", "c"], _collected.Texts);
        Assert.Equal(1, receiver.GetStatistics().RefusedBatches);
    }

    [Fact]
    public async Task Settings_are_read_once_when_the_receiver_is_made()
    {
        var options = new BatchReceiverOptions();
        var receiver = Receiver(FailOn("poison"), options);
        options.DeliveryTimeout = TimeSpan.FromDays(1);
        options.FilterDuplicates = false;

        await ReceiveAsync(receiver, To(_anna, 1, "poison"));
        await ReceiveAsync(receiver, To(_anna, 1, "poison"));

        Assert.Equal(Timeout, TimeSpan.FromTicks(_clock.GetTimestamp()));
    }

    [Theory]
    [InlineData("00:00:00.0099999", false)]
    [InlineData("00:00:00.01", true)]
    [InlineData("1.00:00:00", true)]
    [InlineData("1.00:00:00.0000001", false)]
    public void The_time_limit_has_a_range(string time, bool isValid)
    {
        var options = new BatchReceiverOptions { DeliveryTimeout = TimeSpan.Parse(time, System.Globalization.CultureInfo.InvariantCulture) };

        Assert.Equal(isValid, Validator.TryValidateObject(options, new ValidationContext(options), null, validateAllProperties: true));
    }

    private static void ThrowIf(bool fails, Exception failure)
    {
        if (fails)
            throw failure;
    }

    private static Action<MessageBatch[]> FailOn(string text) =>
        batches => ThrowIf(batches.Any(batch => TextOf(batch) == text), new InvalidOperationException($"No one takes {text}."));

    private static string TextOf(MessageBatch batch) => System.Text.Encoding.UTF8.GetString(batch[0].Payload.Span);

    private BatchReceiver Receiver(Action<MessageBatch[]> decide, BatchReceiverOptions? options = null) =>
        new(new DecidingTransport(_collected, decide), options, _clock, new Logger<BatchReceiver>(_log));

    private MessageBatch To(OutputHandle handle, long number, params string[] texts) => Some.Batch(handle, _producer, number, texts);

    private Task ReceiveAsync(BatchReceiver receiver, params MessageBatch[] batches) => ReceiveAsync(receiver, CancellationToken.None, batches);

    // Moves the clock whenever the receiver pauses.
    private async Task ReceiveAsync(BatchReceiver receiver, CancellationToken cancellationToken, params MessageBatch[] batches)
    {
        var receiving = receiver.ReceiveAsync(Some.Frame(batches), cancellationToken).AsTask();
        while (await Task.WhenAny(receiving, _clock.WaitForTimersAsync()) != receiving)
            _clock.AdvanceToNextTimer();
        await receiving;
    }

    /// <summary>Passes on what the test's decision does not throw at.</summary>
    private sealed class DecidingTransport(IBatchTransport next, Action<MessageBatch[]> decide) : IBatchTransport
    {
        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            decide(batches.ToArray());
            return next.SendAsync(batches, cancellationToken);
        }
    }
}

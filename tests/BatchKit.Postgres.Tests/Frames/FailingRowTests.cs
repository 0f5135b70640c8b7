using System.Text;
using BatchKit.Postgres.Frames;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.Postgres.Tests.Frames;

/// <summary>A stored row with which each send fails: what may pass it leaves, and it is given up only when the transport accepts others.</summary>
public sealed class FailingRowTests
{
    private static readonly OutputHandle Room = OutputHandle.Named("room");
    private static readonly OutputHandle Hall = OutputHandle.Named("hall");

    [Fact]
    public async Task Rows_before_it_and_those_of_other_handles_leave()
    {
        var rows = new Rows().Add(Room, "ok1").Add(Hall, "bad").Add(Room, "ok2").Add(Hall, "behind it").Add(Some.Connection(), "ok3");

        await rows.HandleUntilAsync(() => rows.Arrived.MessageCount == 3 && rows.Handler.Fault is null);

        Assert.Equal(["ok1", "ok2", "ok3"], rows.Arrived.Texts);
        Assert.Equal(["bad", "behind it"], rows.Waiting);
        Assert.Contains("Row 2 waits", rows.Handler.Degradation, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Several_of_them_in_front_do_not_hide_what_leaves()
    {
        var rows = new Rows().Add(Hall, "bad").Add(Room, "bad").Add(Some.Connection(), "bad").Add(Some.Connection(), "ok");

        await rows.HandleUntilAsync(() => rows.Arrived.MessageCount == 1);

        Assert.Equal(["bad", "bad", "bad"], rows.Waiting);
    }

    [Fact]
    public async Task Rows_of_its_producer_wait_because_a_receiver_would_drop_it_as_a_repeat()
    {
        var producer = Some.Producer();
        var rows = new Rows().Add(Hall, "bad", producer, 1).Add(Room, "same producer", producer, 2).Add(Room, "behind that").Add(Some.Connection(), "ok");

        await rows.HandleUntilAsync(() => rows.Arrived.MessageCount > 0 && rows.Handler.Degradation is not null);

        Assert.Equal(["ok"], rows.Arrived.Texts);
    }

    [Fact]
    public async Task It_is_given_up_after_the_limit_when_others_leave()
    {
        var rows = new Rows().Add(Hall, "bad").Add(Hall, "behind it").Add(Room, "ok");

        await rows.HandleUntilAsync(() => rows.Waiting.Count == 0);

        Assert.Equal(["ok", "behind it"], rows.Arrived.Texts);
        Assert.Equal(["bad"], rows.Dead);
        Assert.InRange(rows.Clock.GetElapsedTime(0), FailingRows.Limit, FailingRows.Limit * 2);
        Assert.Null(rows.Handler.Degradation ?? rows.Handler.Fault);
    }

    [Fact]
    public async Task One_of_the_only_producer_is_given_up_when_the_next_one_leaves()
    {
        var producer = Some.Producer();
        var rows = new Rows().Add(Room, "bad", producer, 1).Add(Room, "ok1", producer, 2).Add(Hall, "ok2", producer, 3);

        await rows.HandleUntilAsync(() => rows.Waiting.Count == 0);

        Assert.Equal(["ok1", "ok2"], rows.Arrived.Texts);
        Assert.Equal(["bad"], rows.Dead);
    }

    [Fact]
    public async Task While_the_transport_accepts_nothing_none_is_given_up_and_then_all_leave_in_order()
    {
        var rows = new Rows { IsDown = true };
        foreach (var line in Some.Lines(20))
            rows.Add(Room, line);

        await rows.HandleUntilAsync(() => rows.Clock.GetElapsedTime(0) > FailingRows.Limit * 5);
        Assert.Equal(20, rows.Waiting.Count);
        Assert.NotNull(rows.Handler.Fault);
        rows.IsDown = false;
        await rows.HandleUntilAsync(() => rows.Waiting.Count == 0);

        Assert.Equal(Some.Lines(20), rows.Arrived.Texts);
        Assert.Empty(rows.Dead);
    }

    [Fact]
    public async Task One_that_failed_while_the_transport_was_down_is_kept_although_others_left_once()
    {
        var rows = new Rows().Add(Hall, "bad").Add(Room, "ok");
        await rows.HandleUntilAsync(() => rows.Arrived.MessageCount == 1);

        rows.IsDown = true;
        await rows.HandleUntilAsync(() => rows.Clock.GetElapsedTime(0) > FailingRows.Limit * 3);

        Assert.Equal(["bad"], rows.Waiting);
    }

    [Fact]
    public async Task What_of_a_row_has_arrived_is_not_sent_again()
    {
        var producer = Some.Producer();
        var rows = new Rows().Add(Some.Batch(Room, producer, 1, "first"), Some.Batch(Hall, producer, 2, "bad")).Add(Some.Connection(), "ok");

        await rows.HandleUntilAsync(() => rows.Waiting.Count == 1 && rows.Clock.GetElapsedTime(0) > FailingRows.Limit / 2);

        Assert.Equal(["first", "ok"], rows.Arrived.Texts.Order(StringComparer.Ordinal));
    }

    [Fact]
    public async Task A_send_has_no_more_bytes_than_the_transport_wants()
    {
        var rows = new Rows { MaxSendBytes = 10 };
        foreach (var line in Some.Lines(3))
            rows.Add(Room, line);

        await rows.HandleUntilAsync(() => rows.Waiting.Count == 0);

        Assert.Equal([1, 1, 1], rows.Arrived.BatchesOfSends);
    }

    /// <summary>The rows of an outbox that are claimed again until they are settled, and a transport that fails each send with "bad".</summary>
    private sealed class Rows : IBatchTransport
    {
        private readonly List<(long Id, byte[] Frame, string Text)> _rows = [];

        public Rows() => Handler = new OutboxHandler(this, new PostgresOutboxOptions(), Clock, NullLogger.Instance, CancellationToken.None);

        public ManualTimeProvider Clock { get; } = new();

        public CollectingTransport Arrived { get; } = new();

        public OutboxHandler Handler { get; }

        public bool IsDown { get; set; }

        public int MaxSendBytes { get; init; } = int.MaxValue;

        public IReadOnlyList<string> Waiting => [.. _rows.Select(static row => row.Text)];

        public List<string> Dead { get; } = [];

        public Rows Add(OutputHandle handle, string text) => Add(handle, text, Some.Producer(), 1);

        public Rows Add(OutputHandle handle, string text, ProducerId producer, long number) => Add(Some.Batch(handle, producer, number, text));

        public Rows Add(params MessageBatch[] batches)
        {
            _rows.Add((_rows.Count + 1, Some.Frame(batches), Encoding.UTF8.GetString(batches[0].Payload.Span)));
            return this;
        }

        public async Task HandleUntilAsync(Func<bool> isOver)
        {
            while (!isOver())
            {
                var claimed = _rows.ConvertAll(static row => new QueueMessage(OutputHandle.Named("outbox"), row.Id, attempt: 1, priority: 0, DateTimeOffset.UnixEpoch, key: null, header: null, row.Frame));
                var handling = Handler.HandleAsync(claimed, TestContext.Current.CancellationToken).AsTask();
                await Until.TrueAsync(() =>
                {
                    Clock.AdvanceToNextTimer();
                    return handling.IsCompleted;
                });
                await handling;
                Dead.AddRange(_rows.Where((_, index) => claimed[index].Outcome == MessageOutcome.Dead).Select(static row => row.Text));
                _rows.RemoveAll(row => claimed.Exists(message => message.Id == row.Id && message.Outcome is (MessageOutcome.Done or MessageOutcome.Dead)));
            }
        }

        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            foreach (var batch in batches.Span)
            {
                if (IsDown || batch.Payload.Span.SequenceEqual("bad"u8))
                    throw new IOException("The transport fails.");
            }

            return Arrived.SendAsync(batches, cancellationToken);
        }
    }
}

using System.Numerics;
using BatchKit.Batches;
using BatchKit.Testing;

namespace BatchKit.Tests.Dispatch;

/// <summary>What one of many waits costs: looks at waiters are counted, because time depends on the machine.</summary>
public sealed class ManyWaitersTests
{
    private const int Many = 60_000;

    private readonly CollectingTransport _arrived = new();
    private readonly ScriptedTransport _transport;
    private readonly OutputHandle _handle = Some.Connection();

    public ManyWaitersTests() => _transport = new ScriptedTransport(_arrived);

    [Theory]
    [InlineData(1_000, false)]
    [InlineData(32_000, false)]
    [InlineData(1_000, true)]
    [InlineData(32_000, true)]
    public void A_settled_batch_looks_at_a_logarithm_of_the_flushes_that_wait(int flushes, bool backwards)
    {
        var queue = new FlushQueue();
        for (var place = 1; place <= flushes; place++)
            queue.Add(Waiter(place), unsettled: place);

        for (var settled = 1; settled <= flushes; settled++)
            queue.CountDown(backwards ? flushes + 1 - settled : settled);

        Assert.True(queue.IsEmpty);
        Assert.InRange(queue.Looks, flushes, flushes * (BitOperations.Log2((uint)flushes) + 3L));
    }

    [Fact]
    public void A_flush_is_done_when_exactly_the_batches_before_it_are_settled()
    {
        var random = new Random(1);
        for (var round = 0; round < 200; round++)
        {
            var queue = new FlushQueue();
            var unsettled = new List<long>();
            var waiting = new List<FlushWaiter>();
            var queued = 0L;
            for (var step = 0; step < 300; step++)
            {
                var kind = random.Next(5);
                if (kind < 2)
                    unsettled.Add(++queued);
                else if (kind == 2 && unsettled.Count > 0)
                    Add(queue, waiting, Waiter(queued), unsettled.Count);
                else if (kind == 3 && waiting.Count > 0 && random.Next(4) == 0 && queue.TryRemoveLast(waiting[^1]))
                    waiting.RemoveAt(waiting.Count - 1);
                else if (unsettled.Count > 0)
                    Settle(queue, unsettled, random.Next(unsettled.Count));

                Assert.All(waiting, waiter => Assert.Equal(!unsettled.Exists(place => place <= waiter.Through), waiter.IsDone));
                waiting.RemoveAll(waiter => waiter.IsDone);
                Assert.Equal(waiting.Count == 0, queue.IsEmpty);
            }
        }
    }

    [Theory]
    [InlineData(1_000)]
    [InlineData(32_000)]
    public async Task A_cancelled_or_granted_wait_for_capacity_looks_at_a_few_waiters(int waits)
    {
        var budget = new ByteBudget(capacity: waits, routes: 1, ThreadPoolDispatchScheduler.Shared, dropsOldest: false).Parts[0];
        Assert.True(budget.TryReserve(waits));
        using var cancellation = new CancellationTokenSource();
        Task[] cancelled = [.. Enumerable.Range(0, waits).Select(_ => budget.ReserveAsync(1, cancellation.Token).AsTask())];
        Task[] granted = [.. Enumerable.Range(0, waits).Select(_ => budget.ReserveAsync(1, CancellationToken.None).AsTask())];

        await cancellation.CancelAsync();
        await Task.WhenAll(cancelled.Select(wait => Assert.ThrowsAnyAsync<OperationCanceledException>(() => wait))).WithinDeadline();
        for (var released = 0; released < waits; released++)
            budget.Release(1);
        await Task.WhenAll(granted).WithinDeadline();

        Assert.False(budget.HasWaiters);
        Assert.Equal(waits, budget.Reserved);
        Assert.InRange(budget.Looks, waits, waits * 12L);
    }

    [Fact]
    [Trait("Lane", "night: many handles or messages")]
    public async Task Many_writers_that_wait_for_capacity_are_cancelled_before_the_deadline()
    {
        var stalled = _transport.Stall();
        await using var buffer = new OutputBuffer(_transport, new OutputBufferOptions { MaxBufferedBytes = 16 * 1024, MaxMessageBytes = 12 * 1024 }, timeProvider: new ManualTimeProvider());
        buffer.Write(_handle, new byte[10_000]);
        await stalled.EnteredAsync();
        using var cancellation = new CancellationTokenSource();
        var payload = new byte[8_000];
        Task[] writes = [.. Enumerable.Range(0, Many).Select(_ => buffer.WriteAsync(_handle, payload, cancellationToken: cancellation.Token).AsTask())];

        await cancellation.CancelAsync().WithinDeadline();

        await Task.WhenAll(writes.Select(write => Assert.ThrowsAnyAsync<OperationCanceledException>(() => write))).WithinDeadline();
        stalled.Release();
        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal(1, _arrived.MessageCount);
    }

    [Fact]
    [Trait("Lane", "night: many handles or messages")]
    public async Task Many_flushes_of_one_handle_complete_before_the_deadline()
    {
        var stalled = _transport.Stall();
        await using var buffer = new OutputBuffer(_transport, timeProvider: new ManualTimeProvider());
        var flushes = new Task[Many];
        for (var index = 0; index < Many; index++)
        {
            buffer.Write(_handle, "x"u8);
            flushes[index] = buffer.FlushAsync(_handle).AsTask();
        }

        await stalled.EnteredAsync();
        stalled.Release();

        await Task.WhenAll(flushes).WithinDeadline();
        Assert.Equal(Many, _arrived.MessageCount);
    }

    private static FlushWaiter Waiter(long through)
    {
        var waiter = new FlushWaiter();
        waiter.Begin(ReportedLosses.OfWait, since: 0, heldSince: 0, through, isDone: false, began: 0);
        return waiter;
    }

    private static void Add(FlushQueue queue, List<FlushWaiter> waiting, FlushWaiter waiter, int unsettled)
    {
        queue.Add(waiter, unsettled);
        waiting.Add(waiter);
    }

    private static void Settle(FlushQueue queue, List<long> unsettled, int index)
    {
        var place = unsettled[index];
        unsettled.RemoveAt(index);
        queue.CountDown(place);
    }
}

using BatchKit.Batches;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Dispatch;

/// <summary>A wait that its caller gives up takes nothing along: no report, no memory, no exception that nobody observes.</summary>
[Collection(nameof(Buffering.MeasuresMemory))]
public sealed class GivenUpFlushTests
{
    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly OutputHandle _handle = Some.Connection();

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task The_flush_after_a_cancelled_one_reports_what_was_lost_meanwhile(bool secondIsCancelledToo)
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, timeProvider: _clock);
        buffer.Write(_handle, "lost");
        await stalled.EnteredAsync();
        using var cancellation = new CancellationTokenSource();
        Task[] flushes = [.. Enumerable.Range(0, secondIsCancelledToo ? 2 : 1).Select(_ => buffer.FlushAsync(_handle, cancellation.Token).AsTask())];

        await cancellation.CancelAsync();
        foreach (var flush in flushes)
            Assert.Equal(cancellation.Token, (await Assert.ThrowsAnyAsync<OperationCanceledException>(() => flush.WithinDeadline())).CancellationToken);
        stalled.Fail(new BatchSendException([BatchOutcome.Refused], "Refused."));

        var loss = await Assert.ThrowsAsync<OutputDeliveryException>(() => buffer.FlushAsync(_handle).WithinDeadline());
        Assert.Equal(1, loss.LostMessages);
        await buffer.FlushAsync(_handle).WithinDeadline();
    }

    [Fact]
    public void Given_up_flushes_leave_the_queue_when_none_waits_behind_them()
    {
        var queue = new FlushQueue();
        FlushWaiter[] waiters = [.. Enumerable.Range(1, 4).Select(Waiter)];
        foreach (var waiter in waiters)
            queue.Add(waiter, unsettled: waiter.Through);
        foreach (var waiter in waiters)
            _ = waiter.WhenDoneAsync();

        foreach (var index in new[] { 1, 2, 3 })
        {
            waiters[index].GiveUp();
            queue.TryRemoveLast(waiters[index]);
        }

        Assert.Same(waiters[0], queue.CountDown(1));
        Assert.True(queue.IsEmpty);
    }

    [Fact]
    public async Task Flushes_that_are_cancelled_while_a_hop_hangs_keep_no_memory()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, timeProvider: _clock);
        buffer.Write(_handle, "line");
        await stalled.EnteredAsync();
        await CancelAsync(buffer, flushes: 100);
        var before = GC.GetTotalMemory(forceFullCollection: true);

        await CancelAsync(buffer, flushes: 10_000);

        Assert.InRange(GC.GetTotalMemory(forceFullCollection: true) - before, long.MinValue, 200_000);
        stalled.Release();
    }

    [Fact]
    public async Task A_cancelled_flush_of_all_handles_raises_no_exception_that_nobody_observes()
    {
        var unobserved = 0;
        void Count(object? sender, UnobservedTaskExceptionEventArgs failure) => Interlocked.Increment(ref unobserved);
        TaskScheduler.UnobservedTaskException += Count;
        try
        {
            await FlushAndFailAsync();
            for (var round = 0; round < 3; round++)
            {
                GC.Collect();
                GC.WaitForPendingFinalizers();
            }
        }
        finally
        {
            TaskScheduler.UnobservedTaskException -= Count;
        }

        Assert.Equal(0, unobserved);
    }

    private static FlushWaiter Waiter(int through)
    {
        var waiter = new FlushWaiter();
        waiter.Begin(ReportedLosses.OfWait, since: 0, heldSince: 0, through, isDone: false, began: 0);
        return waiter;
    }

    private async Task CancelAsync(OutputBuffer buffer, int flushes)
    {
        for (var flush = 0; flush < flushes; flush++)
        {
            using var cancellation = new CancellationTokenSource();
            var waiting = buffer.FlushAsync(_handle, cancellation.Token).AsTask();
            await cancellation.CancelAsync();
            await Assert.ThrowsAnyAsync<OperationCanceledException>(() => waiting);
        }
    }

    private async Task FlushAndFailAsync()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, timeProvider: _clock);
        for (var handle = 0; handle < 10; handle++)
            buffer.Write(Some.Connection(), "lost");
        await stalled.EnteredAsync();
        using var cancellation = new CancellationTokenSource();
        var flush = buffer.FlushAsync(cancellation.Token).AsTask();
        var other = buffer.FlushAsync(CancellationToken.None).AsTask();
        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => flush.WithinDeadline());
        transport.RefuseWhere(static _ => true);
        stalled.Fail(new BatchSendException([.. Enumerable.Repeat(BatchOutcome.Refused, 10)], "Refused."));
        await Assert.ThrowsAsync<OutputDeliveryException>(() => other.WithinDeadline());
    }
}

using System.Diagnostics;
using BatchKit.Testing;
using BatchKit.Tests.Support;

namespace BatchKit.Tests.Diagnostics;

public sealed class StatisticsTests
{
    [Fact]
    [Trait("Lane", "slow: threads race again and again")]
    public async Task Statistics_may_be_read_beside_a_sender_at_any_time()
    {
        OutputBuffer? current = null;
        var isDone = false;
        var reading = Task.Factory.StartNew(
            () =>
            {
                while (!Volatile.Read(ref isDone))
                    Assert.False(Volatile.Read(ref current)?.GetStatistics().PendingMessages < 0);
            },
            CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);

        for (var round = 0; round < 250 && !reading.IsCompleted; round++)
        {
            await using var buffer = new OutputBuffer(new CollectingTransport(sendsWithoutBlocking: round % 2 == 0));
            Volatile.Write(ref current, buffer);
            using (buffer.BeginBufferingScope())
            {
                for (var number = 1; number <= 40; number++)
                    buffer.Write(OutputHandle.Connection(node: 1, number), "line"u8);
            }

            await buffer.FlushAsync().WithinDeadline();
        }

        Volatile.Write(ref isDone, true);
        await reading.WithinDeadline();
    }

    [Fact]
    public async Task An_encoder_that_hangs_holds_up_no_reading_and_no_flush_of_other_output()
    {
        using var released = new ManualResetEventSlim();
        var entered = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var arrived = new CollectingTransport();
        await using var buffer = new OutputBuffer(arrived);
        var hangs = OutputHandle.Named("hangs");
        buffer.Write(hangs, "before");
        var hanging = InBackground(() => buffer.Write(hangs, maxBytes: 10, released, (_, released) =>
        {
            entered.SetResult();
            released.Wait(Deadline.Time);
            return 0;
        }));
        await entered.Task.WithinDeadline();
        using var scope = buffer.BeginBufferingScope(OutputHandle.Named("other"));
        buffer.Write(OutputHandle.Named("other"), "held");

        var statistics = default(OutputStatistics);
        await InBackground(() => statistics = buffer.GetStatistics()).WithinDeadline();
        var flush = default(Task);
        await InBackground(() => flush = buffer.FlushAsync().AsTask()).WithinDeadline();
        await arrived.WaitForMessagesAsync(2);

        Assert.Equal((2, 1), (statistics!.AcceptedMessages, statistics.OpenScopes));
        Assert.False(flush!.IsCompleted);
        using var givenUp = new CancellationTokenSource();
        var cancelled = buffer.FlushAsync(givenUp.Token).AsTask();
        await givenUp.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => cancelled.WithinDeadline());
        released.Set();
        await hanging.WithinDeadline();
        await flush.WithinDeadline();
        Assert.Equal(3, buffer.GetStatistics().AcknowledgedMessages);
    }

    [Fact]
    [Trait("Lane", "slow: threads race again and again")]
    public async Task No_counter_goes_back_while_encoders_are_slow_and_writers_hand_over()
    {
        // Many small batches, so that handing them over takes a while.
        await using var buffer = new OutputBuffer(new CountingTransport(), new OutputBufferOptions { MaxBatchMessages = 1 });
        var handle = Some.Connection();
        var isDone = false;
        var writing = InBackground(() =>
        {
            for (var round = 0; round < 300; round++)
            {
                using var writer = buffer.BeginWriting(handle);
                for (var number = 0; number < 1000; number++)
                    writer.Write("line"u8);
            }

            Volatile.Write(ref isDone, true);
        });
        var encoding = InBackground(() =>
        {
            while (!Volatile.Read(ref isDone))
                buffer.WriteLatest(handle, 1, maxBytes: 4, 0, static (_, _) => SpinFor(TimeSpan.FromMilliseconds(3)));
        });

        var last = buffer.GetStatistics();
        while (!writing.IsCompleted)
        {
            var next = buffer.GetStatistics();
            Assert.True(next.AcceptedMessages >= last.AcceptedMessages && next.AcceptedBytes >= last.AcceptedBytes && next.SupersededMessages >= last.SupersededMessages);
            last = next;
        }

        await Task.WhenAll(writing, encoding).WithinDeadline();
        await buffer.FlushAsync().WithinDeadline();
        var end = buffer.GetStatistics();
        Assert.Equal(end.AcceptedMessages, end.AcknowledgedMessages + end.SupersededMessages);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    public async Task What_was_accepted_is_counted_at_each_moment_while_idle_handles_are_given_up(int node)
    {
        const int Handles = 20_000;
        var clock = new ManualTimeProvider();
        await using var buffer = new OutputBuffer(new CountingTransport(), timeProvider: clock);
        for (var number = 1; number <= Handles; number++)
            buffer.Write(OutputHandle.Connection(node, number), "line"u8);
        var isDone = false;
        var hasBegun = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var reading = Task.Factory.StartNew(
            () =>
            {
                for (; !Volatile.Read(ref isDone); hasBegun.TrySetResult())
                    Assert.Equal(Handles, buffer.GetStatistics().AcceptedMessages);
            },
            CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
        await hasBegun.Task.WithinDeadline();

        clock.Advance(TimeSpan.FromMinutes(3));

        Volatile.Write(ref isDone, true);
        await reading.WithinDeadline();
        Assert.InRange(buffer.GetStatistics().LiveHandles, 0, Handles / 2);
    }

    private static Task InBackground(Action act) => Task.Factory.StartNew(act, CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);

    private static int SpinFor(TimeSpan time)
    {
        var begun = Stopwatch.GetTimestamp();
        SpinWait.SpinUntil(() => Stopwatch.GetElapsedTime(begun) > time);
        return 0;
    }
}

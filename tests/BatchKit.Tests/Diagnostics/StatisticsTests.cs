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
}

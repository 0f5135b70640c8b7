using BatchKit.Testing;

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
}

using BatchKit.Postgres;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>Waits until a receiver's tasks are not only handled but gone from the table.</summary>
internal static class Settlement
{
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(60);

    /// <exception cref="InvalidOperationException">That took more than a minute.</exception>
    public static async Task WaitAsync(PostgresQueueReceiver receiver, HandledTasks handled, long tasks)
    {
        using var deadline = new CancellationTokenSource(Limit);
        try
        {
            await handled.All.WaitAsync(deadline.Token);
            while (receiver.GetStatistics().CompletedMessages < tasks)
                await Task.Delay(TimeSpan.FromMilliseconds(1), deadline.Token);
        }
        catch (OperationCanceledException expired)
        {
            var statistics = receiver.GetStatistics();
            throw new InvalidOperationException(
                $"Of {tasks} tasks {statistics.CompletedMessages} were done within {Limit.TotalSeconds} s, {statistics.LostMessages} were lost. {receiver.Fault}", expired);
        }
    }
}

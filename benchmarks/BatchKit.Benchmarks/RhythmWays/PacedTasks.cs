using System.Diagnostics;
using BatchKit.Benchmarks.Linux;
using BatchKit.Benchmarks.Measuring;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>So many tasks a second, each at its own moment, and how long after it a handler has it.</summary>
internal sealed class PacedTasks(int perSecond)
{
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(30);

    private readonly Lock _lock = new();
    private readonly LatencyHistogram _latencies = new();
    private readonly HandledTasks _handled = new();

    public void Handle(ReadOnlySpan<byte> payload)
    {
        var latency = Stopwatch.GetElapsedTime(TaskPayload.StampOf(payload));
        lock (_lock)
            _latencies.Add((long)latency.TotalNanoseconds);
        _handled.Handle(payload);
    }

    /// <summary>Writes for so long, and waits for the last.</summary>
    /// <returns>Milliseconds that half of the tasks, and 99 of 100, stay below.</returns>
    /// <exception cref="InvalidOperationException">A task was lost, or handled twice.</exception>
    public async Task<(double Median, double NinetyNine)> RunAsync(TimeSpan duration, Action<byte[]> write)
    {
        var tasks = (int)(duration.TotalSeconds * perSecond);
        _latencies.Clear();
        _handled.Expect(tasks);
        await Task.Factory.StartNew(() => Write(tasks, write), CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
        await Task.WhenAny(_handled.All, Task.Delay(Limit));
        _handled.Check();
        lock (_lock)
            return (MillisecondsAt(0.5), MillisecondsAt(0.99));
    }

    /// <summary>A task's time begins when it is due, whenever its thread wakes up.</summary>
    private void Write(int tasks, Action<byte[]> write)
    {
        var payload = TaskPayload.Make();
        var began = Stopwatch.GetTimestamp();
        for (var number = 0; number < tasks; number++)
        {
            var due = TimeSpan.FromSeconds(number / (double)perSecond);
            if (due - Stopwatch.GetElapsedTime(began) is { Ticks: > 0 } wait)
                Libc.Sleep(wait);
            TaskPayload.Number(payload, number);
            TaskPayload.Stamp(payload, began + (long)(due.TotalSeconds * Stopwatch.Frequency));
            write(payload);
        }
    }

    private double MillisecondsAt(double share) => TimeSpan.FromMicroseconds(_latencies.At(share) / 1000d).TotalMilliseconds;
}

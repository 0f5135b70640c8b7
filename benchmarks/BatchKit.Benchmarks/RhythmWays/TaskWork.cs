using System.Diagnostics;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>What a worker does with tasks: it notes each, and takes so long for it.</summary>
internal sealed class TaskWork(TimeSpan duration)
{
    public HandledTasks Handled { get; } = new();

    /// <summary>Starts a worker's turn with some tasks.</summary>
    public Turn Begin() => new(this, Stopwatch.GetTimestamp());

    /// <summary>A turn. The time of a task begins when that of the one before ended, so that a timer that fires late is late once a turn and not once a task.</summary>
    internal struct Turn(TaskWork work, long began)
    {
        private int _tasks;

        public ValueTask HandleAsync(ReadOnlySpan<byte> payload)
        {
            work.Handled.Handle(payload);
            _tasks++;
            return work.Duration == TimeSpan.Zero ? default : WaitAsync(began, _tasks * work.Duration);
        }

        private static async ValueTask WaitAsync(long began, TimeSpan due)
        {
            // A timer may fire a little early.
            while (due - Stopwatch.GetElapsedTime(began) is { Ticks: > 0 } left)
                await Task.Delay(TimeSpan.FromMilliseconds(Math.Ceiling(left.TotalMilliseconds)));
        }
    }

    private TimeSpan Duration => duration;
}

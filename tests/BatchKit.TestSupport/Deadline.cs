namespace BatchKit.TestSupport;

/// <summary>The longest that a test waits for an event: far longer than an event takes, so that only a test that would hang is ended.</summary>
public static class Deadline
{
    /// <summary>One minute.</summary>
    public static TimeSpan Time { get; } = TimeSpan.FromMinutes(1);

    /// <summary>Waits for the task, and throws <see cref="TimeoutException"/> at the deadline.</summary>
    public static Task WithinDeadline(this Task task) => task.WaitAsync(Time);

    /// <inheritdoc cref="WithinDeadline(Task)"/>
    public static Task<T> WithinDeadline<T>(this Task<T> task) => task.WaitAsync(Time);

    /// <inheritdoc cref="WithinDeadline(Task)"/>
    public static Task WithinDeadline(this ValueTask task) => task.AsTask().WaitAsync(Time);

    /// <inheritdoc cref="WithinDeadline(Task)"/>
    public static Task<T> WithinDeadline<T>(this ValueTask<T> task) => task.AsTask().WaitAsync(Time);

    /// <summary>Moves a manual clock on, a step at a time, until the task has ended, however it did, and throws <see cref="TimeoutException"/> at the deadline.</summary>
    /// <remarks>For a limit that is armed, or armed again, on another thread or by the kernel: one step over all of it may come too early.</remarks>
    public static async Task WhileAdvancing(this Task task, Action advance)
    {
        for (var ending = task.WithinDeadline(); !ending.IsCompleted;)
        {
            advance();
            await Task.WhenAny(ending, Task.Delay(5));
        }

        if (!task.IsCompleted)
            throw new TimeoutException($"The task has not ended within {Time}.");
    }
}

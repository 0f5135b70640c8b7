namespace BatchKit.Transports;

/// <summary>Starts what outlives a call without the caller's execution context: no activity, ambient transaction, culture or other async local reaches it or is kept alive by it.</summary>
/// <remarks>For loops, timers and connections of transports and receivers. Use it from any thread.</remarks>
public static class CallerContext
{
    /// <summary>Starts something while the flow of the execution context is suppressed.</summary>
    /// <typeparam name="T">A task or a timer, for instance.</typeparam>
    /// <param name="create">Starts it. It is called on this thread, so it still sees the caller's context; what it starts does not.</param>
    /// <returns>What <paramref name="create"/> returned.</returns>
    public static T Without<T>(Func<T> create)
    {
        ArgumentNullException.ThrowIfNull(create);
        if (ExecutionContext.IsFlowSuppressed())
            return create();
        using (ExecutionContext.SuppressFlow())
            return create();
    }

    /// <summary>Runs a loop or other long work on the thread pool.</summary>
    /// <param name="work">The work.</param>
    /// <returns>A task that ends with the work.</returns>
    public static Task RunWithout(Func<Task> work) => Without(() => Task.Run(work));

    /// <inheritdoc cref="RunWithout(Func{Task})"/>
    /// <typeparam name="T">What the work returns.</typeparam>
    public static Task<T> RunWithout<T>(Func<Task<T>> work) => Without(() => Task.Run(work));

    /// <summary>Creates a timer that is not set.</summary>
    /// <param name="timeProvider">Creates the timer.</param>
    /// <param name="callback">Called when the timer fires.</param>
    /// <param name="state">Passed to the callback.</param>
    /// <returns>The timer; the caller disposes of it.</returns>
    public static ITimer CreateTimer(TimeProvider timeProvider, TimerCallback callback, object? state)
    {
        ArgumentNullException.ThrowIfNull(timeProvider);
        return Without(() => timeProvider.CreateTimer(callback, state, Timeout.InfiniteTimeSpan, Timeout.InfiniteTimeSpan));
    }
}

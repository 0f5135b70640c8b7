namespace BatchKit.Testing;

/// <summary>The longest that this package waits for an event: far longer than an event takes on a busy machine, so that it ends only a test that would hang.</summary>
internal static class Deadline
{
    public static TimeSpan Time { get; } = TimeSpan.FromMinutes(1);

    public static Task WithinDeadline(this Task task) => task.WaitAsync(Time, TimeProvider.System);

    public static Task WithinDeadline(this ValueTask task) => task.AsTask().WithinDeadline();
}

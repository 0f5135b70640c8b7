using RabbitMQ.Client;

namespace BatchKit.RabbitMQ;

/// <summary>Owns connections that were given up: closes them beside their successors, and waits for that at the end.</summary>
internal sealed class RabbitMqClosings(TimeProvider timeProvider)
{
    // The client gives an abort at least 5 s; a connection that still hangs then is left to its heartbeat.
    public static readonly TimeSpan Limit = TimeSpan.FromSeconds(6);

    // Guards the list.
    private readonly Lock _lock = new();
    private readonly List<Task> _closings = [];

    public void Start(IConnection connection) => Add(CloseAsync(connection));

    /// <summary>For an attempt to connect that was not waited for: closes what may yet come of it.</summary>
    public void Start(Task<OpenChannel> attempt) => Add(CloseLateAsync(attempt));

    /// <summary>Waits until all are closed, at most for the limit.</summary>
    public async Task WaitAsync(TimeSpan limit)
    {
        Task[] closings;
        lock (_lock)
            closings = [.. _closings];
        await Task.WhenAll(closings).WaitAsync(limit, timeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    private void Add(Task closing)
    {
        lock (_lock)
        {
            _closings.RemoveAll(static task => task.IsCompleted);
            _closings.Add(closing);
        }
    }

    private async Task CloseLateAsync(Task<OpenChannel> attempt)
    {
        await attempt.ContinueWith(static _ => { }, CancellationToken.None, TaskContinuationOptions.ExecuteSynchronously, TaskScheduler.Default)
            .ConfigureAwait(false);
        if (attempt.IsCompletedSuccessfully)
            await CloseAsync(attempt.Result.Connection).ConfigureAwait(false);
        else
            _ = attempt.Exception;
    }

    private async Task CloseAsync(IConnection connection)
    {
        // An abort reports nothing: there is nobody left to whom it would matter.
        var closing = AbortAsync(connection);
        await closing.WaitAsync(Limit, timeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    private static async Task AbortAsync(IConnection connection)
    {
        // Off the caller's path: the client may run a long way before its first wait.
        await Task.Yield();
        await connection.AbortAsync().ConfigureAwait(false);
        await connection.DisposeAsync().ConfigureAwait(false);
    }
}

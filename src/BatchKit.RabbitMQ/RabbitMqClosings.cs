using RabbitMQ.Client;

namespace BatchKit.RabbitMQ;

/// <summary>Closes discarded connections and channels in the background while their successors already work. At the end it waits for all of them.</summary>
internal sealed class RabbitMqClosings(TimeProvider timeProvider)
{
    public static readonly TimeSpan Limit = RabbitMqEnd.Limit;

    // Guards the list.
    private readonly Lock _lock = new();
    private readonly List<Task> _closings = [];

    /// <summary>Starts to close a connection, or only its channel when the application owns the connection.</summary>
    /// <param name="connection">The connection.</param>
    /// <param name="channel">Its channel; null when it has none yet.</param>
    /// <param name="leave">See <see cref="OpenChannel"/>.</param>
    public void Start(IConnection connection, IChannel? channel, Action? leave) => Add(CloseAsync(connection, channel, leave));

    /// <summary>Starts to close a channel of a connection that goes on, or ends by itself.</summary>
    public void Start(IChannel channel) => Add(RabbitMqEnd.EndAsync(channel, timeProvider));

    /// <summary>Closes the connection that an abandoned attempt may still open.</summary>
    public void Start(Task<OpenChannel> attempt) => Start(attempt, open => CloseAsync(open.Connection, open.Channel, open.Leave));

    /// <summary>Ends what an abandoned attempt may still open.</summary>
    public void Start<T>(Task<T> attempt, Func<T, Task> end) => Add(EndLateAsync(attempt, end));

    /// <summary>Waits until all connections are closed, at most for the limit.</summary>
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

    private static async Task EndLateAsync<T>(Task<T> attempt, Func<T, Task> end)
    {
        await ((Task)attempt).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (attempt.IsCompletedSuccessfully)
            await end(await attempt.ConfigureAwait(false)).ConfigureAwait(false);
        else
            _ = attempt.Exception;
    }

    private async Task CloseAsync(IConnection connection, IChannel? channel, Action? leave)
    {
        leave?.Invoke();
        if (leave is null)
            await RabbitMqEnd.EndAsync(Task.FromResult(connection), timeProvider).ConfigureAwait(false);
        else if (channel is not null)
            await RabbitMqEnd.EndAsync(channel, timeProvider).ConfigureAwait(false);
    }
}

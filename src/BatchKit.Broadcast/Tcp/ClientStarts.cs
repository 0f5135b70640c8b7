using System.Collections.Concurrent;

namespace BatchKit.Broadcast.Tcp;

/// <summary>Starts accepted clients on the thread pool. The clients of a storm share a few work items, so that the accept loop does not wait for them and none of them costs a thread hop of its own.</summary>
/// <param name="start">Starts one client. It must not throw.</param>
internal sealed class ClientStarts<TClient>(Action<TClient> start) : IThreadPoolWorkItem
{
    // More than any machine needs for starts that only compute, and enough to go on when the starts of some clients block.
    private const int MaxWorkers = 16;

    // After so many the others in the pool's queue, such as clients that send, get their turn.
    private const int MaxConsecutiveStarts = 64;

    private readonly ConcurrentQueue<TClient> _waiting = new();
    private int _workers;

    /// <summary>Adds a client; returns at once.</summary>
    public void Add(TClient client)
    {
        _waiting.Enqueue(client);
        AddWorker();
    }

    void IThreadPoolWorkItem.Execute()
    {
        for (var started = 0; started < MaxConsecutiveStarts && _waiting.TryDequeue(out var client); started++)
            start(client);

        // Given back before the queue is looked at: who adds a client after the look finds the place free.
        Interlocked.Decrement(ref _workers);
        if (!_waiting.IsEmpty)
            AddWorker();
    }

    private void AddWorker()
    {
        for (var workers = Volatile.Read(ref _workers); workers < MaxWorkers;)
        {
            var before = Interlocked.CompareExchange(ref _workers, workers + 1, workers);
            if (before == workers)
            {
                ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);
                return;
            }

            workers = before;
        }
    }
}

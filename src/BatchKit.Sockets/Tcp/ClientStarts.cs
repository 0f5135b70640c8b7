using System.Collections.Concurrent;

namespace BatchKit.Broadcast.Tcp;

/// <summary>Starts accepted clients on the thread pool. The clients of a storm share a few work items, so that the accept loop does not wait for them and none of them costs a thread hop of its own.</summary>
/// <param name="start">Starts one client. It must not throw.</param>
internal sealed class ClientStarts<TClient>(Action<TClient> start) : IThreadPoolWorkItem
{
    // More than any machine needs for starts that only compute, and enough to continue when the starts of some clients block.
    private const int MaxWorkers = 16;

    // A worker lets the pool's other work run, such as the accept loop, after this many starts. A start takes a tenth of a millisecond.
    private const int MaxConsecutiveStarts = 4;

    // It takes about a third of a second to accept this many. Without the limit, clients that keep coming would delay the first ones for ever.
    private const int MaxHeld = 16_384;

    private readonly ConcurrentQueue<TClient> _waiting = new();
    private int _count;
    private int _workers;
    private int _loopsTaking;

    // A start takes ten times as long as an accept. While clients wait to be accepted the processor is needed there, or the system's queue is full and drops them.
    private bool IsHeld => Volatile.Read(ref _loopsTaking) > 0 && Volatile.Read(ref _count) < MaxHeld;

    /// <summary>Adds a client; returns at once.</summary>
    public void Add(TClient client)
    {
        _waiting.Enqueue(client);
        Interlocked.Increment(ref _count);
        AddWorker();
    }

    /// <summary>Notes that a loop begins to accept clients that wait, or that it has accepted all.</summary>
    public void NoteTaking(bool isTaking)
    {
        if (isTaking)
        {
            Interlocked.Increment(ref _loopsTaking);
            return;
        }

        Interlocked.Decrement(ref _loopsTaking);
        for (var worker = 0; worker < Environment.ProcessorCount && !_waiting.IsEmpty; worker++)
            AddWorker();
    }

    void IThreadPoolWorkItem.Execute()
    {
        for (var started = 0; started < MaxConsecutiveStarts && !IsHeld && _waiting.TryDequeue(out var client); started++)
        {
            Interlocked.Decrement(ref _count);
            start(client);
        }

        // The worker frees its place before it looks at the queue, so a caller that adds a client after that look finds the place free.
        Interlocked.Decrement(ref _workers);
        if (!_waiting.IsEmpty)
            AddWorker();
    }

    private void AddWorker()
    {
        if (IsHeld)
            return;
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

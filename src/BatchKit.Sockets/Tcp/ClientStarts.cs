using System.Collections.Concurrent;

namespace BatchKit.Broadcast.Tcp;

/// <summary>Starts accepted clients on the thread pool. The clients of a storm share a few work items, so that the accept loop does not wait for them and none of them costs a thread hop of its own.</summary>
internal sealed class ClientStarts<TClient>
{
    /// <summary>The most work items at once. More than any machine needs for starts that only compute, and enough to continue when the starts of some clients block.</summary>
    public const int MaxWorkers = 16;

    // A worker lets the pool's other work run, such as the accept loop, after this many starts. A start takes a tenth of a millisecond.
    private const int MaxConsecutiveStarts = 4;

    // It takes about a third of a second to accept this many. Without the limit, clients that keep coming would delay the first ones for ever.
    private const int MaxHeld = 16_384;

    // When clients wait for that long and none is started, all workers are in starts that block.
    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(1);

    private readonly Action<TClient> _start;
    private readonly TimeProvider _timeProvider;
    private readonly Action<int> _noteBlocked;
    private readonly ConcurrentQueue<TClient> _waiting = new();
    private int _count;
    private int _loopsTaking;
    private volatile Crew _crew;
    private volatile bool _hasStarted;
    private int _isWatched;

    /// <param name="start">Starts one client. It must not throw.</param>
    /// <param name="timeProvider">The clock.</param>
    /// <param name="noteBlocked">Told how many clients waited because the starts of others block. It must not throw.</param>
    public ClientStarts(Action<TClient> start, TimeProvider timeProvider, Action<int> noteBlocked)
    {
        (_start, _timeProvider, _noteBlocked) = (start, timeProvider, noteBlocked);
        _crew = new Crew(this);
    }

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

    private void AddWorker()
    {
        if (IsHeld)
            return;
        if (!_crew.TryAddWorker())
            Watch();
    }

    private void StartSome()
    {
        for (var started = 0; started < MaxConsecutiveStarts && !IsHeld && _waiting.TryDequeue(out var client); started++)
        {
            _hasStarted = true;
            if (Interlocked.Decrement(ref _count) > 0)
                Watch();
            _start(client);
        }
    }

    /// <summary>Looks later whether the clients that wait were held up by starts that block.</summary>
    private void Watch()
    {
        if (Volatile.Read(ref _isWatched) == 0 && Interlocked.Exchange(ref _isWatched, 1) == 0)
            _ = WatchAsync();
    }

    private async Task WatchAsync()
    {
        _hasStarted = false;
        await Task.Delay(Patience, _timeProvider).ConfigureAwait(false);
        Volatile.Write(ref _isWatched, 0);
        var waiting = Volatile.Read(ref _count);
        if (waiting <= 0)
            return;
        var isBlocked = !_hasStarted && !IsHeld;
        if (isBlocked)
            _crew = new Crew(this);
        AddWorker();
        if (isBlocked)
            _noteBlocked(waiting);
    }

    /// <summary>The workers that run, up to a limit. One whose workers all block is replaced by another.</summary>
    private sealed class Crew(ClientStarts<TClient> starts) : IThreadPoolWorkItem
    {
        private int _workers;

        /// <returns>False at the limit.</returns>
        public bool TryAddWorker()
        {
            for (var workers = Volatile.Read(ref _workers); workers < MaxWorkers;)
            {
                var before = Interlocked.CompareExchange(ref _workers, workers + 1, workers);
                if (before == workers)
                {
                    ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);
                    return true;
                }

                workers = before;
            }

            return false;
        }

        public void Execute()
        {
            starts.StartSome();

            // The worker frees its place before it looks at the queue, so a caller that adds a client after that look finds the place free.
            Interlocked.Decrement(ref _workers);
            if (!starts._waiting.IsEmpty)
                starts.AddWorker();
        }
    }
}

namespace BatchKit.Benchmarks.Scopes;

/// <summary>Threads that do the same work side by side; with one, the caller does it alone.</summary>
internal sealed class Crew : IDisposable
{
    private readonly Barrier _barrier;
    private readonly Thread[] _threads;
    private Action<int>? _work;

    public Crew(int size)
    {
        _barrier = new Barrier(size);
        _threads = [.. Enumerable.Range(1, size - 1).Select(worker => new Thread(() => Follow(worker)) { IsBackground = true })];
        foreach (var thread in _threads)
            thread.Start();
    }

    /// <summary>Gives each worker its number, and returns when all have finished.</summary>
    public void Run(Action<int> work)
    {
        _work = work;
        _barrier.SignalAndWait();
        work(0);
        _barrier.SignalAndWait();
    }

    public void Dispose()
    {
        _work = null;
        _barrier.SignalAndWait();
        foreach (var thread in _threads)
            thread.Join();
        _barrier.Dispose();
    }

    private void Follow(int worker)
    {
        while (true)
        {
            _barrier.SignalAndWait();
            if (_work is null)
                return;
            _work(worker);
            _barrier.SignalAndWait();
        }
    }
}

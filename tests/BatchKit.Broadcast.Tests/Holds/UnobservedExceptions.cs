using System.Collections.Concurrent;

namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>Collects the exceptions of tasks that nobody looked at, from here on.</summary>
internal sealed class UnobservedExceptions : IDisposable
{
    private readonly ConcurrentQueue<Exception> _exceptions = new();

    public UnobservedExceptions()
    {
        // What earlier tests left behind shows now, and is not this one's.
        CollectGarbage();
        TaskScheduler.UnobservedTaskException += Add;
    }

    public IReadOnlyCollection<Exception> Collect()
    {
        CollectGarbage();
        return _exceptions;
    }

    public void Dispose() => TaskScheduler.UnobservedTaskException -= Add;

    private static void CollectGarbage()
    {
        for (var round = 0; round < 2; round++)
        {
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }
    }

    private void Add(object? sender, UnobservedTaskExceptionEventArgs unobserved) => _exceptions.Enqueue(unobserved.Exception);
}

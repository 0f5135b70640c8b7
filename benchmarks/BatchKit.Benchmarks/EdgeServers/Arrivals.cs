using System.Diagnostics;

namespace BatchKit.Benchmarks.EdgeServers;

/// <summary>Counts the clients that a server has accepted, and notes when the last one came.</summary>
internal sealed class Arrivals
{
    private long _count;
    private long _lastAt;

    public long Count => Volatile.Read(ref _count);

    public long LastAt => Volatile.Read(ref _lastAt);

    public void Add()
    {
        Volatile.Write(ref _lastAt, Stopwatch.GetTimestamp());
        Interlocked.Increment(ref _count);
    }

    /// <summary>Follows another count of all clients so far, from a thread of its own: it looks each millisecond.</summary>
    public void Follow(Func<long> count) => new Thread(() =>
    {
        while (true)
        {
            if (count() is var now && now > Count)
            {
                Volatile.Write(ref _lastAt, Stopwatch.GetTimestamp());
                Volatile.Write(ref _count, now);
            }

            Thread.Sleep(1);
        }
    })
    { IsBackground = true }.Start();
}

using System.Collections.Concurrent;
using BatchKit.Broadcast.Connections;
using Microsoft.Extensions.ObjectPool;

namespace BatchKit.Broadcast.Fanout;

/// <summary>Sends what is staged: on the caller's thread for few connections, otherwise in ranges, with one worker per core.</summary>
/// <remarks>After each range a worker goes to the end of the thread pool's queue, so that readers and small sends get their turn during a large send.</remarks>
internal sealed class FanoutWork(SendQueueLimits limits, DeliveryCounters counters) : IThreadPoolWorkItem
{
    /// <summary>The most connections that are sent to on the caller's thread: about a third of a millisecond, at 5 µs a send.</summary>
    public const int MaxInlineConnections = 64;

    private const int RangeConnections = 256;

    private readonly ConcurrentBag<OutputComposer> _composers = [];
    private TaskCompletionSource? _done;
    private int _nextConnection;
    private int _workers;
    private Exception? _failure;

    public StagedSend Staged { get; } = new(limits);

    public void RunInline() => Send(..);

    public Task RunAsync()
    {
        _done = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        _nextConnection = 0;
        _failure = null;
        var ranges = (Staged.Count + RangeConnections - 1) / RangeConnections;
        var workers = Math.Min(Environment.ProcessorCount, ranges);
        _workers = workers;
        for (var worker = 0; worker < workers; worker++)
            ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);
        return _done.Task;
    }

    void IThreadPoolWorkItem.Execute()
    {
        try
        {
            var first = Interlocked.Add(ref _nextConnection, RangeConnections) - RangeConnections;
            if (first < Staged.Count)
            {
                Send(first..Math.Min(first + RangeConnections, Staged.Count));
                ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);
                return;
            }
        }
        catch (Exception failure)
        {
            _failure = failure;
        }

        if (Interlocked.Decrement(ref _workers) > 0)
            return;
        if (_failure is null)
            _done!.SetResult();
        else
            _done!.SetException(_failure);
    }

    private void Send(Range range)
    {
        if (!_composers.TryTake(out var composer))
            composer = new OutputComposer(limits);
        var tally = default(DeliveryTally);
        try
        {
            Staged.Send(range, composer, ref tally);
        }
        finally
        {
            counters.Add(tally);
        }

        // Not after a failure: the composer may then hold bytes for a connection, and the next one must not get them.
        _composers.Add(composer);
    }
}

/// <summary>Creates the objects of the pool.</summary>
internal sealed class FanoutWorkPolicy(SendQueueLimits limits, DeliveryCounters counters) : PooledObjectPolicy<FanoutWork>
{
    public override FanoutWork Create() => new(limits, counters);

    public override bool Return(FanoutWork obj) => true;
}

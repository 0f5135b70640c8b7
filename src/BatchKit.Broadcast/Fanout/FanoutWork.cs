using System.Collections.Concurrent;
using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Fanout;

/// <summary>Sends what is staged: on the caller's thread when it is little, else in ranges on one worker a core.</summary>
/// <remarks>A worker goes to the end of the pool's queue after each range, so that readers and small sends get their turn during a large one.</remarks>
internal sealed class FanoutWork(SendQueueLimits limits, DeliveryCounters counters) : IThreadPoolWorkItem
{
    /// <summary>So many connections are sent to on the caller's thread: about a third of a millisecond, at 5 µs a send.</summary>
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

        // Not after a failure: it may hold what one connection should have got.
        _composers.Add(composer);
    }
}

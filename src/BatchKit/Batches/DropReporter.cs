using System.Runtime.InteropServices;
using BatchKit.Diagnostics;

namespace BatchKit.Batches;

/// <summary>Tells the application's callback of lost messages, one call at a time, where senders run: never on the thread that lost them, and never under a lock. Thread-safe.</summary>
/// <remarks>While a call runs, what is lost is added up by handle and reason, so that a slow callback holds up no one and costs little memory. What it throws is counted.</remarks>
internal sealed class DropReporter(Action<DroppedMessages> callback, IDispatchScheduler scheduler, ObserverFaults faults) : IThreadPoolWorkItem
{
    // Beyond this, the losses of further handles are reported together.
    private const int MaxHandles = 1024;

    // Guards the fields below.
    private readonly Lock _lock = new();
    private Dictionary<(OutputHandle Handle, DropReason Reason), long> _dropped = [];
    private bool _isReporting;
    private TaskCompletionSource? _idle;

    public void Add(OutputHandle handle, DropReason reason, long messages)
    {
        lock (_lock)
        {
            if (_dropped.Count >= MaxHandles && !_dropped.ContainsKey((handle, reason)))
                handle = default;
            CollectionsMarshal.GetValueRefOrAddDefault(_dropped, (handle, reason), out _) += messages;
            if (_isReporting)
                return;
            _isReporting = true;
        }

        scheduler.Schedule(this);
    }

    /// <summary>Completes when the callback knows of every loss so far, or has hung for too long, which is counted.</summary>
    public async Task WhenIdleAsync(TimeSpan limit, TimeProvider timeProvider)
    {
        Task idle;
        lock (_lock)
            idle = _isReporting ? (_idle ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)).Task : Task.CompletedTask;
        try
        {
            await idle.WaitAsync(limit, timeProvider).ConfigureAwait(false);
        }
        catch (TimeoutException slow)
        {
            faults.Add(slow);
        }
    }

    void IThreadPoolWorkItem.Execute()
    {
        while (TakeAll() is { } dropped)
        {
            foreach (var ((handle, reason), messages) in dropped)
                Report(new DroppedMessages(handle, reason, messages));
        }
    }

    private Dictionary<(OutputHandle Handle, DropReason Reason), long>? TakeAll()
    {
        lock (_lock)
        {
            if (_dropped.Count > 0)
            {
                var dropped = _dropped;
                _dropped = [];
                return dropped;
            }

            _isReporting = false;
            _idle?.TrySetResult();
            _idle = null;
            return null;
        }
    }

    private void Report(DroppedMessages dropped)
    {
        try
        {
            callback(dropped);
        }
        catch (Exception fault)
        {
            faults.Add(fault);
        }
    }
}

using BatchKit.Batches;

namespace BatchKit.Buffering;

/// <summary>The handles whose scopes held something back since they were last looked at, so that a writer that waits for capacity need not walk all handles.</summary>
internal sealed class HeldHandles(BufferSettings settings)
{
    private readonly Lock _gate = new();
    private readonly LinkedList<HandleBuffer> _handles = [];
    private readonly HashSet<HandleBuffer> _late = [];

    /// <summary>Adds a handle that is not in the list; call it under the handle's lock.</summary>
    public void Add(HandleBuffer handle)
    {
        lock (_gate)
            handle.HeldNode = _handles.AddLast(handle);
    }

    /// <summary>Removes a handle; its next held message adds it again. Call it under the handle's lock, unless the handle is retired.</summary>
    public void Remove(HandleBuffer handle)
    {
        lock (_gate)
        {
            if (handle.HeldNode is not { } node)
                return;
            _handles.Remove(node);
            handle.HeldNode = null;
        }
    }

    /// <summary>Removes all handles. The buffer is disposed, but a thread may reference its last handle, and through it this list.</summary>
    public void Clear()
    {
        foreach (var handle in Snapshot())
            Remove(handle);
    }

    /// <summary>Flushes what the handles hold. An encoder that hangs has its handle's lock: the caller waits a millisecond for it at most, and that handle is flushed on the pool when the lock is free.</summary>
    public void FlushAll(FlushReason reason)
    {
        foreach (var handle in Snapshot())
        {
            if (HandleTable.IsFree(handle, HandleBuffer.LongestWaitMilliseconds))
                Flush(handle, reason);
            else if (AddLate(handle))
                _ = FlushLateAsync(handle, reason);
        }
    }

    private void Flush(HandleBuffer handle, FlushReason reason)
    {
        handle.Flush(reason);
        settings.CountLook();
        lock (handle.Gate)
        {
            if (!handle.Output.HasHeld && !handle.Writers.HaveOutput)
                Remove(handle);
        }
    }

    private async Task FlushLateAsync(HandleBuffer handle, FlushReason reason)
    {
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        lock (handle.Gate)
        {
            // Who asks from here on finds the lock taken, and is served by the flush below, or asks again.
            lock (_gate)
                _late.Remove(handle);
        }

        Flush(handle, reason);
    }

    // One thread of the pool at most waits for a handle.
    private bool AddLate(HandleBuffer handle)
    {
        lock (_gate)
            return _late.Add(handle);
    }

    private HandleBuffer[] Snapshot()
    {
        lock (_gate)
            return [.. _handles];
    }
}

namespace BatchKit.Broadcast.Connections;

/// <summary>A result that is set once. Its task is created by the first wait for it, because most connections are waited for only at their end. Thread-safe; never copied.</summary>
internal struct LazyCompletion<T>
{
    private const int Setting = 1;
    private const int Set = 2;

    private TaskCompletionSource<T>? _source;
    private T? _result;
    private int _state;

    public readonly bool IsSet => Volatile.Read(in _state) == Set;

    /// <summary>Completes with the result.</summary>
    public Task<T> Task
    {
        get
        {
            var source = Volatile.Read(ref _source);
            if (source is null)
            {
                var created = new TaskCompletionSource<T>(TaskCreationOptions.RunContinuationsAsynchronously);
                source = Interlocked.CompareExchange(ref _source, created, null) ?? created;
            }

            if (IsSet)
                source.TrySetResult(_result!);
            return source.Task;
        }
    }

    /// <returns>False when a result was set before.</returns>
    public bool TrySet(T result)
    {
        if (Interlocked.CompareExchange(ref _state, Setting, 0) != 0)
            return false;
        _result = result;

        // A full barrier, so that the source is read after the state is written. A thread that creates the source at this moment sees the state, or the source is completed here.
        Interlocked.Exchange(ref _state, Set);
        Volatile.Read(ref _source)?.TrySetResult(result);
        return true;
    }
}

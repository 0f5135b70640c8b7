namespace BatchKit.Tests.Sequences;

/// <summary>What an output buffer over a transport that completes at once should do, as plainly as it can be said.</summary>
internal sealed class BufferModel(int handles, int maxBatchBytes, int maxBatchMessages)
{
    private readonly ModelHandle[] _handles = [.. Enumerable.Range(0, handles).Select(index => new ModelHandle(index))];
    private readonly List<ModelScope> _scopes = [];
    private ModelGathering? _ambient;

    public List<SentBatch> Sent { get; } = [];

    public int Scopes => _scopes.Count;

    public int Accepted { get; private set; }

    public int Held => _handles.Sum(handle => handle.Held.Count);

    public void Write(int handleIndex, int message, int bytes)
    {
        var handle = _handles[handleIndex];
        Accepted++;
        if (_ambient is { OpenScopes: > 0 } gathering && !gathering.Taken.Exists(taken => taken.Handle == handle))
            gathering.Taken.Add(Open(handle));
        if (handle.Held.Count > 0 && (handle.HeldBytes + bytes > maxBatchBytes || handle.Held.Count == maxBatchMessages))
            Send(handle);
        handle.Held.Add(message);
        handle.HeldBytes += bytes;
        if (!handle.IsHeldBack)
            Send(handle);
    }

    public void Open(int handleIndex) => _scopes.Add(Open(_handles[handleIndex]));

    public void OpenAmbient(bool elsewhere)
    {
        var gathering = _ambient is { OpenScopes: > 0 } ? _ambient : new ModelGathering();
        gathering.OpenScopes++;
        _scopes.Add(new ModelScope(handle: null, gathering));
        if (!elsewhere)
            _ambient = gathering;
    }

    public void Close(int scopeIndex) => Close(_scopes[scopeIndex]);

    public bool End(int handleIndex)
    {
        if (_handles[handleIndex].OpenScopes is not [.., var last])
            return false;
        Close(last);
        return true;
    }

    public void Flush(int handleIndex) => Send(_handles[handleIndex]);

    public void FlushAll()
    {
        foreach (var handle in _handles)
            Send(handle);
    }

    private static ModelScope Open(ModelHandle handle)
    {
        var scope = new ModelScope(handle, gathering: null);
        handle.OpenScopes.Add(scope);
        return scope;
    }

    private void Close(ModelScope scope)
    {
        if (!scope.IsOpen)
            return;
        scope.IsOpen = false;
        if (scope.Handle is { } handle)
        {
            handle.OpenScopes.Remove(scope);
            if (!handle.IsHeldBack)
                Send(handle);
        }
        else if (--scope.Gathering!.OpenScopes == 0)
        {
            scope.Gathering.Taken.ForEach(Close);
        }
    }

    private void Send(ModelHandle handle)
    {
        if (handle.Held.Count == 0)
            return;
        Sent.Add(new SentBatch(handle.Index, [.. handle.Held]));
        handle.Held.Clear();
        handle.HeldBytes = 0;
    }
}

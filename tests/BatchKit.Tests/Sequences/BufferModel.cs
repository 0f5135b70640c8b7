using BatchKit.Transports;

namespace BatchKit.Tests.Sequences;

/// <summary>What an output buffer over a transport that completes at once should do, as plainly as it can be said.</summary>
internal sealed class BufferModel(int handles, int maxBatchBytes, int maxBatchMessages)
{
    private readonly ModelHandle[] _handles = [.. Enumerable.Range(0, handles).Select(index => new ModelHandle(index))];
    private readonly List<ModelScope> _scopes = [];
    private ModelGathering? _ambient;
    private long _lastPlace;
    private TimeSpan _now;

    public List<SentBatch> Sent { get; } = [];

    public int Scopes => _scopes.Count;

    public int Accepted { get; private set; }

    public int Superseded { get; private set; }

    public int Expired { get; private set; }

    /// <summary>Batches that were not sent, because all of their messages had expired.</summary>
    public int ExpiredBatches { get; private set; }

    public int Held => _handles.Sum(handle => handle.Held.Sum(batch => batch.Messages.Count));

    public int HeldBatches => _handles.Sum(handle => handle.Held.Count(batch => batch.IsClosed || batch != handle.Held[^1]));

    public void Write(int handleIndex, ModelMessage message)
    {
        var handle = _handles[handleIndex];
        message = message with { ExpiresAt = message.TimeToLive is { } time ? _now + time : TimeSpan.MaxValue };
        Accepted++;
        var startsBatch = _ambient is { OpenScopes: > 0 } gathering && Gather(gathering, handle) && !HasLastPlace(handle);
        if (TryReplace(handle, message))
        {
            handle.Held[^1].IsClosed |= startsBatch;
            return;
        }

        if (startsBatch || handle.Held is not [.., { IsClosed: false } open] || open.Bytes + message.Cost > maxBatchBytes || open.Messages.Count == maxBatchMessages)
            handle.Held.Add(open = new ModelBatch { Place = handle.IsGathered ? ++_lastPlace : 0 });
        open.Messages.Add(message);
        if (handle.Held.Sum(batch => batch.Messages.Count) == 1)
            handle.HeldSince = _now;
        if (!handle.IsHeldBack)
            Send(handle);
    }

    /// <summary>A writer's messages take their place together when it is disposed, in batches of their own.</summary>
    public void WriteLoop(int handleIndex, IReadOnlyList<ModelMessage> messages)
    {
        var handle = _handles[handleIndex];
        var startsBatch = _ambient is { OpenScopes: > 0 } gathering && Gather(gathering, handle) && !HasLastPlace(handle);
        var scope = Open(handle, gathering: null);
        Accepted += messages.Count;
        if ((messages.Count > 0 || startsBatch) && handle.Held is [.., var last])
            last.IsClosed = true;
        foreach (var message in messages)
        {
            if (handle.Held is not [.., { IsClosed: false } open] || open.Bytes + message.Cost > maxBatchBytes || open.Messages.Count == maxBatchMessages)
                handle.Held.Add(open = new ModelBatch { Place = handle.IsGathered ? ++_lastPlace : 0 });
            open.Messages.Add(message);
        }

        Close(scope);
    }

    public void Open(int handleIndex, TimeSpan? limit = null) => _scopes.Add(Open(_handles[handleIndex], gathering: null, limit));

    /// <summary>Time passes: what has been held for its limit leaves.</summary>
    public void Advance(TimeSpan time)
    {
        var before = _now;
        _now += time;
        foreach (var handle in _handles)
            SendWhenOver(handle, before);
    }

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

    // In the place of the last message with its key, unless it is larger and that one's batch is full.
    private bool TryReplace(ModelHandle handle, ModelMessage message)
    {
        if (message.Key is null || handle.Held.FindLast(batch => batch.Messages.Exists(other => other.Key == message.Key)) is not { } batch)
            return false;
        var index = batch.Messages.FindLastIndex(other => other.Key == message.Key);
        var growth = message.Bytes - batch.Messages[index].Bytes;
        if (growth > 0 && batch.Messages.Count > 1 && batch.Bytes + growth > maxBatchBytes)
            return false;
        batch.Messages[index] = message;
        Superseded++;
        return true;
    }

    /// <returns>True when the message must go behind what the flow wrote since: a name's behind everything, a connection's behind what went to names.</returns>
    private bool Gather(ModelGathering gathering, ModelHandle handle)
    {
        var last = gathering.Written.FindLastIndex(written => written == handle);
        var since = gathering.Written[(last + 1)..];
        gathering.Written.Add(handle);
        if (last >= 0)
            return since.Exists(written => !handle.IsConnection || !written.IsConnection);
        foreach (var batch in handle.Held.Where(batch => batch.Place == 0))
            batch.Place = ++_lastPlace;
        gathering.Taken.Add(Open(handle, gathering));
        return true;
    }

    // Nothing was begun behind its last batch, so that a message may join it.
    private bool HasLastPlace(ModelHandle handle) => _lastPlace != 0 && handle.Held is [.., var last] && last.Place == _lastPlace;

    private static ModelScope Open(ModelHandle handle, ModelGathering? gathering, TimeSpan? limit = null)
    {
        var scope = new ModelScope(handle, gathering) { Limit = limit };
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
            Remove(scope, handle);
            if (!handle.IsHeldBack)
                Send(handle);
            else
                SendWhenOver(handle, _now);
        }
        else if (--scope.Gathering!.OpenScopes == 0)
        {
            CloseAll(scope.Gathering.Taken.Where(taken => taken.IsOpen).ToList());
        }
    }

    // In the order in which the batches were begun, over all handles.
    private void CloseAll(List<ModelScope> taken)
    {
        foreach (var scope in taken)
        {
            scope.IsOpen = false;
            Remove(scope, scope.Handle!);
        }

        var leaving = taken.Select(scope => scope.Handle!).Where(handle => !handle.IsHeldBack).ToList();
        var batches = from handle in leaving
                      from batch in handle.Held
                      orderby batch.Place
                      select (handle, batch);
        foreach (var (handle, batch) in batches.ToList())
            Send(handle, batch, _now);
        leaving.ForEach(handle => handle.Held.Clear());
    }

    // A limit counts from the first message that is held, or from the end of a scope that had none.
    private void Remove(ModelScope scope, ModelHandle handle)
    {
        handle.OpenScopes.Remove(scope);
        if (scope.Limit is null)
            handle.HeldSince = _now;
    }

    /// <param name="handle">The handle.</param>
    /// <param name="earliest">Until when it was not over.</param>
    private void SendWhenOver(ModelHandle handle, TimeSpan earliest)
    {
        if (handle.LongestLimit is { } limit && _now - handle.HeldSince >= limit)
            Send(handle, TimeSpan.FromTicks(Math.Max(earliest.Ticks, (handle.HeldSince + limit).Ticks)));
    }

    private void Send(ModelHandle handle) => Send(handle, _now);

    private void Send(ModelHandle handle, TimeSpan at)
    {
        foreach (var batch in handle.Held)
            Send(handle, batch, at);
        handle.Held.Clear();
    }

    // What is too old is left out.
    private void Send(ModelHandle handle, ModelBatch batch, TimeSpan at)
    {
        var left = batch.Messages.FindAll(message => message.ExpiresAt > at);
        Expired += batch.Messages.Count - left.Count;
        if (left.Count > 0)
            Sent.Add(new SentBatch(handle.Index, [.. left.Select(message => message.Number)]));
        else
            ExpiredBatches++;
    }
}

/// <summary>A message in the model.</summary>
/// <param name="Number">Which it is.</param>
/// <param name="Bytes">Its size.</param>
/// <param name="Key">Its key, when it is a latest value.</param>
/// <param name="TimeToLive">How long it may wait, when that has an end.</param>
internal sealed record ModelMessage(int Number, int Bytes, long? Key, TimeSpan? TimeToLive = null)
{
    private static readonly int HeaderBytes = new MessageHeader { TimeToLive = TimeSpan.FromSeconds(1) }.EncodedBytes;

    public int Cost => Bytes + OutputBufferOptions.MessageOverheadBytes + (Key is null ? 0 : FrameFormat.MaxLatestBytes) + (TimeToLive is null ? 0 : HeaderBytes);

    /// <summary>When it is too old to be sent.</summary>
    public TimeSpan ExpiresAt { get; init; } = TimeSpan.MaxValue;
}

/// <summary>A batch that the model holds back.</summary>
internal sealed class ModelBatch
{
    public List<ModelMessage> Messages { get; } = [];

    public int Bytes => Messages.Sum(message => message.Cost);

    /// <summary>True when the next message must not join it.</summary>
    public bool IsClosed { get; set; }

    /// <summary>Its place among the batches of an ambient scope's handles.</summary>
    public long Place { get; set; }
}

/// <summary>A handle in the model: its open scopes in the order of their opening, those that an ambient scope took included, and what they hold back.</summary>
internal sealed class ModelHandle(int index)
{
    public int Index { get; } = index;

    public bool IsConnection { get; } = SequenceRun.IsConnection(index);

    public List<ModelScope> OpenScopes { get; } = [];

    public List<ModelBatch> Held { get; } = [];

    public bool IsHeldBack => OpenScopes.Count > 0;

    /// <summary>Since when a limit holds back what is held.</summary>
    public TimeSpan HeldSince { get; set; }

    /// <summary>How long that may be; null while no scope is open, or one without a limit.</summary>
    public TimeSpan? LongestLimit => OpenScopes.Exists(scope => scope.Limit is null) ? null : OpenScopes.Max(scope => scope.Limit);

    public bool IsGathered => OpenScopes.Exists(scope => scope.Gathering is not null);
}

/// <summary>A scope in the model: on one handle, or ambient; or one that an ambient scope took on a handle.</summary>
internal sealed class ModelScope(ModelHandle? handle, ModelGathering? gathering)
{
    public ModelHandle? Handle { get; } = handle;

    public ModelGathering? Gathering { get; } = gathering;

    /// <summary>How long it may hold output back; null when that is until it closes.</summary>
    public TimeSpan? Limit { get; init; }

    public bool IsOpen { get; set; } = true;
}

/// <summary>What nested ambient scopes share in the model: how many are open, the scopes that they took, and every write in order.</summary>
internal sealed class ModelGathering
{
    public int OpenScopes { get; set; }

    public List<ModelScope> Taken { get; } = [];

    public List<ModelHandle> Written { get; } = [];
}

using BatchKit.SignalR.Records;
using Microsoft.AspNetCore.SignalR;

namespace BatchKit.SignalR.Clients;

/// <summary>One connection: what waits for it, and the write under way. Each write takes all that waits.</summary>
internal sealed class HubClient
{
    // By its name, because the interface itself is a preview feature, which a package must not ask its users to accept.
    private const string StatefulReconnect = "Microsoft.AspNetCore.Connections.Abstractions.IStatefulReconnectFeature";

    // SignalR ends a connection whose socket has not taken, within 10 s, all that its transport found in the pipe. The pipe itself pauses its writer at 64 KiB, but takes any single write whole.
    private const int MaxWriteBytes = 64 * 1024;

    // Guards the fields below.
    private readonly Lock _lock = new();
    private List<EncodedRun> _waiting = [];
    private List<EncodedRun> _taken = [];
    private long _queuedBytes;
    private long _takenBytes;
    private bool _isWriting;
    private bool _isCut;
    private long _movedAt;
    private TaskCompletionSource? _caughtUp;
    private long _lastSend;
    private int _placeInSend;
    private long _backlogBytes;

    // What was queued by sends that have not ended, whether it is written or not, and by the one that no longer waits while the client still reads.
    private long _openBytes;
    private long _lateBytes;

    private readonly ClientLimits _limits;
    private readonly bool _countsMessages;

    public HubClient(HubConnectionContext connection, OutputHandle handle, ClientLimits limits)
    {
        Connection = connection;
        Handle = handle;
        Protocol = new NamedProtocol(connection.Protocol);
        _limits = limits;
        _countsMessages = connection.Features.Any(static feature => feature.Key.FullName == StatefulReconnect);
    }

    public HubConnectionContext Connection { get; }

    public NamedProtocol Protocol { get; }

    /// <summary>Where this node writes what is for this connection alone.</summary>
    public OutputHandle Handle { get; }

    /// <summary>Its groups; the table of groups that they are in is changed with them. Guarded by itself.</summary>
    public HashSet<string> Groups { get; } = new(StringComparer.Ordinal);

    /// <summary>False once it has disconnected: it joins no more groups. Guarded by <see cref="Groups"/>.</summary>
    public bool IsConnected { get; set; } = true;

    /// <summary>The calls of other servers that it has not answered, the oldest first. Guarded by itself.</summary>
    public LinkedList<string> Asked { get; } = new();

    /// <summary>Queues a run. The send writes it when it has queued all its runs.</summary>
    /// <remarks>What one send has for a client that is not far behind is taken whole, however large it is. A send that has not ended waits for the client, so what it has queued does not count for another one.</remarks>
    public void Queue(EncodedRun run, HubSend send)
    {
        lock (_lock)
        {
            if (_isCut || run.Count == 0)
                return;
            if (_lastSend != send.Id)
            {
                (_lastSend, _backlogBytes) = (send.Id, Math.Max(0, _queuedBytes - _openBytes));
                _placeInSend = send.Add(this);
            }

            if (_backlogBytes <= _limits.MaxQueuedBytes / 2 || run.Length <= _limits.MaxQueuedBytes - _queuedBytes)
            {
                _waiting.Add(run.Hold());
                (_queuedBytes, _openBytes) = (_queuedBytes + run.Length, _openBytes + run.Length);
                send.AddBytes(_placeInSend, run.Length);
                return;
            }

            _isCut = true;
            Release(_waiting);
            _caughtUp?.TrySetResult();
        }

        _limits.Cut(Connection);
    }

    /// <summary>Writes what waits, unless a write is under way: that one goes on with it.</summary>
    /// <param name="send">Joins runs once for all its clients; null when none does.</param>
    /// <returns>False when a write is under way.</returns>
    public bool Write(HubSend? send)
    {
        List<EncodedRun> runs;
        lock (_lock)
        {
            if (_isWriting || _waiting.Count == 0)
                return !_isWriting;
            _isWriting = true;
            runs = TakeLocked();
        }

        do
        {
            var writing = WriteAsync(runs, send);
            if (!writing.IsCompletedSuccessfully)
            {
                _ = FinishAsync(writing, runs);
                return false;
            }
        }
        while (TryTakeNext(ref runs));
        return true;
    }

    /// <summary>Completes when at most half of the limit waits, or after <see cref="ClientLimits.StuckAfter"/>: a client that reads a little now and then must not hold the others up for ever.</summary>
    /// <remarks>Cancelled, it completes too: the clients have the send in their queues, and it must not be repeated.</remarks>
    /// <param name="sendBytes">What the send has queued.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    public async Task CatchUpAsync(long sendBytes, CancellationToken cancellationToken)
    {
        using var ended = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken);
        await Task.WhenAny(WhenCaughtUp(), Task.Delay(_limits.StuckAfter, _limits.TimeProvider, ended.Token)).ConfigureAwait(false);
        await ended.CancelAsync().ConfigureAwait(false);
        lock (_lock)
        {
            // A client that still reads is not cut for what one send had for it. That of a second one counts, so that what waits stays bounded.
            if (TryEnd(sendBytes))
                return;
            if (_lateBytes == 0)
                _lateBytes = sendBytes;
            else
                EndLocked(sendBytes);
        }
    }

    /// <summary>Ends a send for it.</summary>
    /// <param name="sendBytes">What the send has queued.</param>
    /// <returns>False when the send should wait for it, by <see cref="CatchUpAsync"/>.</returns>
    public bool TryEnd(long sendBytes)
    {
        lock (_lock)
        {
            if (IsBehind)
                return false;
            EndLocked(sendBytes + _lateBytes);
            _lateBytes = 0;
            return true;
        }
    }

    private bool IsOverHalf => !_isCut && _isWriting && _queuedBytes > _limits.MaxQueuedBytes / 2;

    // One that has taken nothing for long is not waited for.
    private bool IsBehind => IsOverHalf && _limits.TimeProvider.GetElapsedTime(_movedAt) < _limits.StuckAfter;

    private Task WhenCaughtUp()
    {
        lock (_lock)
            return IsOverHalf ? (_caughtUp ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)).Task : Task.CompletedTask;
    }

    private void EndLocked(long sendBytes) => _openBytes = Math.Max(0, _openBytes - sendBytes);

    private List<EncodedRun> TakeLocked()
    {
        (_waiting, _taken) = (_taken, _waiting);
        _takenBytes = _queuedBytes;
        _movedAt = _limits.TimeProvider.GetTimestamp();
        return _taken;
    }

    /// <summary>Counts a part of a write that the client has accepted.</summary>
    private void Advance(int bytes)
    {
        lock (_lock)
        {
            _movedAt = _limits.TimeProvider.GetTimestamp();
            AdvanceLocked(bytes);
        }
    }

    private void AdvanceLocked(long bytes)
    {
        _takenBytes -= bytes;
        _queuedBytes -= bytes;
        if (_queuedBytes == 0)
            _openBytes = 0;
        if (_queuedBytes > _limits.MaxQueuedBytes / 2)
            return;
        EndLocked(_lateBytes);
        _lateBytes = 0;
        _caughtUp?.TrySetResult();
        _caughtUp = null;
    }

    /// <summary>Ends a write, and takes what came meanwhile.</summary>
    /// <returns>False when nothing did.</returns>
    private bool TryTakeNext(ref List<EncodedRun> runs)
    {
        lock (_lock)
        {
            AdvanceLocked(_takenBytes);
            Release(runs);
            _isWriting = _waiting.Count > 0;
            if (_isWriting)
                runs = TakeLocked();
            return _isWriting;
        }
    }

    // SignalR logs a write that fails, and ends the connection: the task itself does not fail.
    private ValueTask WriteAsync(List<EncodedRun> runs, HubSend? send)
    {
        Count(runs, send);
        if (_countsMessages)
            return WriteCountedAsync([.. runs]);
        if (runs.Count > 1)
        {
            var joined = send?.Join(runs) ?? EncodedRun.Join(runs);
            Release(runs);
            runs.Add(joined);
        }

        return runs[0].Length <= MaxWriteBytes ? Connection.WriteAsync(runs[0].Joined) : WritePartsAsync(runs[0]);
    }

    private void Count(List<EncodedRun> runs, HubSend? send)
    {
        var written = default(Written);
        foreach (var run in runs)
            written += new Written(0, run.Count, run.Length);
        written += new Written(_countsMessages ? written.Messages : 1, 0, 0);
        if (send is null)
            _limits.Count(written);
        else
            send.Count(written);
    }

    private static void Release(List<EncodedRun> runs)
    {
        foreach (var run in runs)
            run.Release();
        runs.Clear();
    }

    private async ValueTask WriteCountedAsync(EncodedRun[] runs)
    {
        foreach (var run in runs)
        {
            for (var message = 0; message < run.Count; message++)
            {
                await Connection.WriteAsync(run.Counted[message]).ConfigureAwait(false);
                Advance(run.BytesOf(message));
            }
        }
    }

    private async ValueTask WritePartsAsync(EncodedRun run)
    {
        // All begin at once and stand in line at SignalR's lock, so that what it writes later, such as a method's result, comes behind them.
        var parts = new List<(Task Writing, int Bytes)>();
        for (var first = 0; first < run.Count;)
            parts.Add((Connection.WriteAsync(run.GetPart(MaxWriteBytes, ref first, out var bytes)).AsTask(), bytes));
        for (var part = 0; part < parts.Count; part++)
        {
            await parts[part].Writing.ConfigureAwait(false);
            Advance(parts[part].Bytes);

            // The first is counted already.
            if (part > 0)
                _limits.Count(new Written(1, 0, 0));
        }
    }

    private async Task FinishAsync(ValueTask writing, List<EncodedRun> runs)
    {
        await writing.ConfigureAwait(false);
        while (TryTakeNext(ref runs))
            await WriteAsync(runs, send: null).ConfigureAwait(false);
    }
}

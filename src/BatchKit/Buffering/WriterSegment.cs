using System.Buffers;
using System.Runtime.CompilerServices;
using BatchKit.Batches;
using BatchKit.Diagnostics;
using BatchKit.Dispatch;

namespace BatchKit.Buffering;

/// <summary>What a <see cref="MessageWriter"/> has written and not yet put into its handle's order: batches that only its thread adds to. Pooled by its thread.</summary>
/// <remarks>
/// Its thread appends without a lock, and says so while it does (<c>_isInCall</c>). Whoever needs the messages holds the handle's lock, asks, and waits for the end of that call. Neither side pays for a
/// barrier but the one that asks, which is rare: its barrier is one for the whole process.
/// </remarks>
internal sealed class WriterSegment
{
    private const int FirstMessageBytes = 1024;

    // Memory of a thread that once wrote a large message is not kept.
    private const int MaxKeptBytes = 64 * 1024;

    [ThreadStatic]
    private static WriterSegment? _free;

    private readonly int _thread = Environment.CurrentManagedThreadId;

    // Its thread's alone. Over a buffer of another's making there is neither: it gets each message at once.
    private HandleBuffer? _buffer;
    private OutputWriter? _writer;
    private BufferingScope _scope;
    private ArrayBufferWriter<byte>? _message;

    // Negative while an encoder runs.
    private long _version = 1;
    private int _mostCost;

    // Changed under the handle's lock. Its thread reads them without it.
    private PendingBatch? _batch;
    private int _mostBatchCost;
    private int _mostMessages;
    private bool _isInCall;

    // Guarded by the handle's lock: full batches, linked with each other.
    private PendingBatch? _firstFull;
    private PendingBatch? _lastFull;

    /// <summary>The buffer that takes what the segment can't.</summary>
    public IOutputBuffer Output { get; private set; } = null!;

    public OutputHandle Handle { get; private set; }

    /// <summary>The next of the thread's free ones, or of its handle's open ones.</summary>
    public WriterSegment? Next { get; set; }

    /// <summary>False when there is certainly nothing to put into the order. Call it under the handle's lock, as all below but what its thread calls.</summary>
    public bool HasOutput => _batch is not null || _firstFull is not null;

    /// <summary>True once something else than its writer has ended its scope: from then on its messages take the way of unscoped writes.</summary>
    public bool IsEnded => _scope.IsEnded;

    public static InvalidOperationException Closed() => new ObjectDisposedException(nameof(MessageWriter), "The message writer was disposed, or is default. Begin another one with BeginWriting.");

    /// <summary>Takes a scope, and keeps messages until its writer is disposed.</summary>
    public static MessageWriter Begin(IOutputBuffer output, OutputHandle handle, BufferingScope scope, HandleBuffer? buffer = null, OutputWriter? writer = null, bool startsRun = false)
    {
        var segment = _free ?? new WriterSegment();
        _free = segment.Next;
        (segment.Output, segment.Handle, segment._scope) = (output, handle, scope);
        (segment._buffer, segment._writer, segment._mostCost) = (buffer, writer, writer?.LeastLimit ?? 0);
        if (buffer is not null)
        {
            lock (buffer.Gate)
                buffer.Writers.Add(segment, ref buffer.Output, startsRun);
        }

        return new MessageWriter(segment, segment._version);
    }

    /// <summary>Adds one message without a header, if nothing has to be asked for.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public bool TryAppendPlain(long version, ReadOnlySpan<byte> payload)
    {
        ThrowIfClosed(version);
        var isAdded = false;
        Volatile.Write(ref _isInCall, true);
        if (_batch is { } batch && payload.Length <= _mostCost && payload.Length + OutputBufferOptions.MessageOverheadBytes is var cost && cost <= _mostBatchCost - batch.Cost && batch.Count < Volatile.Read(ref _mostMessages))
        {
            batch.Memory.AppendPlain(payload);
            batch.Cost += cost;
            isAdded = true;
        }

        Volatile.Write(ref _isInCall, false);
        return isAdded;
    }

    /// <summary>Adds one message. An encoder, which is foreign code, runs under the handle's lock: whoever needs the messages waits for a lock with a limit, and for a call without the lock without one.</summary>
    /// <returns>False when <see cref="Output"/> has to take it: there is no capacity, or nothing may be held back. What was added before is in the handle's order then.</returns>
    public bool TryAppend<TPayload>(long version, scoped ref TPayload payload, MessageHeader? header)
        where TPayload : struct, IMessagePayload, allows ref struct
    {
        ThrowIfClosed(version);
        EncoderGuard.ThrowIfEncoding();
        var cost = MessageCost.Of(payload.MaxBytes, header);
        _version = -version;
        try
        {
            Volatile.Write(ref _isInCall, true);
            var isAdded = !TPayload.MayFail && _batch is { } batch && (uint)cost <= (uint)_mostCost && cost <= _mostBatchCost - batch.Cost && batch.Count < Volatile.Read(ref _mostMessages)
                && (header is null || batch.Memory.Headers is not null) && batch.AppendReserved(ref payload, header, cost) >= 0;
            Volatile.Write(ref _isInCall, false);
            payload.ThrowIfFailed();
            return isAdded || (_buffer is { } buffer && TryAppendLocked(buffer, ref payload, header, cost));
        }
        finally
        {
            _version = version;
        }
    }

    /// <summary>The bytes of a message that is not complete.</summary>
    public ArrayBufferWriter<byte> MessageOf(long version)
    {
        ThrowIfClosed(version);
        if (Environment.CurrentManagedThreadId != _thread)
            throw new InvalidOperationException("A message writer was used on another thread than the one that began it. Begin a writer on each thread: what each writes arrives whole.");
        return _message ??= new ArrayBufferWriter<byte>(FirstMessageBytes);
    }

    /// <summary>Puts what was written into the handle's order, and closes the scope. Later calls do nothing.</summary>
    public void Close(long version)
    {
        if (Math.Abs(_version) != version)
            return;
        EncoderGuard.ThrowIfEncoding();
        if (_buffer is { } buffer)
        {
            var startsRun = _writer!.Cover(buffer);
            lock (buffer.Gate)
            {
                HandOver(buffer);
                buffer.Writers.Remove(this);
                if (startsRun)
                    buffer.Output.EndRun();
            }
        }

        var scope = _scope;
        Reset();

        // Last, because it may send on this thread, and the transport may write.
        scope.Dispose();
    }

    /// <summary>Keeps its thread from adding more without the lock.</summary>
    public void Ask() => Volatile.Write(ref _mostMessages, 0);

    /// <summary>Puts its messages into the handle's order, once its thread is in no call. Call it under the handle's lock, behind <see cref="Ask"/> and a barrier for the whole process.</summary>
    public void HandOverAsked(HandleBuffer buffer)
    {
        // What an encoder brings about on its own thread would wait for itself.
        if (_thread == Environment.CurrentManagedThreadId && _version < 0)
            return;
        var spin = default(SpinWait);
        while (Volatile.Read(ref _isInCall))
            spin.SpinOnce();
        HandOver(buffer);
    }

    public (int Messages, long Bytes) CountOutput()
    {
        // A count is read once, so that what is accepted is pending too.
        var (messages, bytes) = (_batch?.Count ?? 0, (long)(_batch?.Bytes ?? 0));
        for (var full = _firstFull; full is not null; full = full.NextHeld)
            (messages, bytes) = (messages + full.Count, bytes + full.Bytes);
        return (messages, bytes);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private bool TryAppendLocked<TPayload>(HandleBuffer buffer, scoped ref TPayload payload, MessageHeader? header, int cost)
        where TPayload : struct, IMessagePayload, allows ref struct
    {
        _writer!.ThrowIfTooLarge(Handle, payload.MaxBytes, header);
        var starts = default(SenderStarts);
        lock (buffer.Gate)
        {
            if (!IsEnded && buffer.MayHoldBack() && !(TPayload.MayFail && buffer.Output.MayNeedSealing) && TryAppendTo(buffer, ref payload, header, cost))
                return true;
            HandOver(buffer);
            if (buffer.Budget.HasWaiters)
                buffer.Output.QueueAll(FlushReason.CapacityNeeded, ref starts);
        }

        starts.StartAll();
        return false;
    }

    private bool TryAppendTo<TPayload>(HandleBuffer buffer, scoped ref TPayload payload, MessageHeader? header, int cost)
        where TPayload : struct, IMessagePayload, allows ref struct
    {
        if (_batch is { } last && buffer.Output.IsFull(last, header is null ? cost : cost - last.SharedBytesOf(header)))
        {
            buffer.Writers.BeginMove();
            Chain(last);
            buffer.Writers.EndMove();
        }

        var batch = _batch ?? buffer.Writers.Begin(ref buffer.Output);
        var written = batch.Append(ref payload, header, prepaid: 0);
        if (written < 0)
        {
            if (batch.Count == 0)
                batch.GiveUpEmpty();
            payload.ThrowIfFailed();
            return false;
        }

        _batch = batch;
        (_mostBatchCost, _mostMessages) = (Math.Min(batch.MostCost, buffer.Output.MaxBatchBytes), Math.Min(batch.Memory.MostMessages, _writer!.MaxBatchMessages));
        if (BatchKitTracing.IsListening)
            batch.Writers.RememberCurrent();
        return true;
    }

    private void Chain(PendingBatch full)
    {
        full.ReturnUnused();
        full.Memory.Trim();
        if (_lastFull is null)
            _firstFull = full;
        else
            _lastFull.NextHeld = full;
        (_lastFull, _batch) = (full, null);
    }

    private void HandOver(HandleBuffer buffer)
    {
        if (!HasOutput)
            return;
        buffer.Writers.BeginMove();
        try
        {
            Move(buffer);
        }
        finally
        {
            buffer.Writers.EndMove();
        }
    }

    private void Move(HandleBuffer buffer)
    {
        if (_batch is { } last)
            Chain(last);
        for (var batch = _firstFull; batch is not null;)
        {
            var next = batch.NextHeld;
            batch.NextHeld = null;
            if (batch == _firstFull)
                buffer.Writers.Expect(batch);
            buffer.Output.Adopt(batch, buffer.HasAmbientScope, batch == _firstFull ? FlushReason.Interleaved : FlushReason.BatchFull);
            batch = next;
        }

        _firstFull = _lastFull = null;
    }

    private void Reset()
    {
        _version++;
        (_buffer, _writer, Output, Handle, _scope) = (null, null, null!, default, default);
        if (_message is { Capacity: > MaxKeptBytes })
            _message = null;
        _message?.ResetWrittenCount();
        Next = _free;
        _free = this;
    }

    private void ThrowIfClosed(long version)
    {
        if (_version != version)
            throw _version == -version ? EncoderGuard.Refusal() : Closed();
    }
}

using System.Runtime.CompilerServices;
using BatchKit.Buffering;

namespace BatchKit;

/// <summary>Collects the many small messages of a loop into a few large batches, and sends these in order.</summary>
/// <remarks>
/// Every member may be called from any thread, and from inside a transport's send. Output for one handle leaves in the order in which its
/// writes returned. A payload is copied before the call returns; the caller keeps its memory.
/// </remarks>
public interface IOutputBuffer
{
    /// <summary>Holds back a handle's output until the scope is disposed. Scopes nest and are counted, across threads.</summary>
    /// <remarks>
    /// <para>While it is open, the output of every writer for the handle waits. When the last scope closes, all of it leaves in one send if it fits. It leaves earlier only when
    /// a writer waits for capacity, at a flush, after <see cref="OutputBufferOptions.MaxScopeAge"/>, and when the buffer stops. Allocates nothing in the steady state.</para>
    /// <para>With a limit, what the scope holds leaves when it closes, or when <paramref name="maxHold"/> has passed since the first message that it holds, whichever comes first. In the second case the
    /// scope stays open, for as long as you like. Use a limit for a tick, or for a queue of commands that runs later than the loop that filled it. While a scope without a limit is open for the
    /// same handle as well, its output waits for the end of that scope. When several scopes on the handle have limits, the longest applies; an ambient scope's limit is timed separately.</para>
    /// </remarks>
    /// <param name="handle">The destination.</param>
    /// <param name="maxHold">The limit, above zero and at most one day; null, the default, for none.</param>
    /// <param name="openerLine">Filled in by the compiler.</param>
    /// <param name="openerFile">Filled in by the compiler: the warning names it when the scope is never closed.</param>
    /// <exception cref="ArgumentException">The handle is <c>default</c>.</exception>
    /// <exception cref="ArgumentOutOfRangeException">The limit is outside its range.</exception>
    /// <exception cref="ObjectDisposedException">The buffer has stopped.</exception>
    BufferingScope BeginBufferingScope(
        OutputHandle handle, TimeSpan? maxHold = null, [CallerLineNumber] int openerLine = 0, [CallerFilePath] string openerFile = "");

    /// <summary>Holds back the output for every handle that this async flow writes to, until the scope is disposed.</summary>
    /// <remarks>
    /// <para>The flow's first write to a handle takes a scope on it. When the outermost ambient scope closes, all that it holds leaves in the order in which it was written, in one
    /// send per partition. The scope follows <c>await</c> and tasks started inside it. A scope that an async helper opens is invisible to the helper's
    /// caller: open it in the method that owns the loop. Opening allocates about 200 bytes, because .NET copies the execution context.</para>
    /// <para>With a limit, what it holds leaves when it closes, or when the limit has passed since its first message; the scope then goes on with the next messages. An ambient scope that is
    /// opened inside another one joins it, and the limit of the outer one applies. See <see cref="BeginBufferingScope(OutputHandle, TimeSpan?, int, string)"/>.</para>
    /// </remarks>
    /// <param name="maxHold">The limit, above zero and at most one day; null, the default, for none.</param>
    /// <param name="openerLine">Filled in by the compiler.</param>
    /// <param name="openerFile">Filled in by the compiler: the warning names it when the scope is never closed.</param>
    /// <exception cref="ArgumentOutOfRangeException">The limit is outside its range.</exception>
    /// <exception cref="ObjectDisposedException">The buffer has stopped.</exception>
    BufferingScope BeginBufferingScope(TimeSpan? maxHold = null, [CallerLineNumber] int openerLine = 0, [CallerFilePath] string openerFile = "");

    /// <summary>Begins to write a loop's messages for one handle, in a scope of their own and without a lock for each. Dispose the writer where the loop ends.</summary>
    /// <remarks>
    /// <para>What is written through it leaves as with a scope: headers, limits, counters, flushes and <see cref="OverflowPolicy"/> apply alike. The messages take their place in the handle's order together, when the writer is
    /// disposed, or when a flush, age or missing capacity needs them earlier: what others write meanwhile is before or behind them. Where its message finds no capacity, it does what <see cref="Write(OutputHandle, ReadOnlySpan{byte}, MessageHeader?)"/> does.
    /// A loop that awaits, or that several threads run, uses a scope.</para>
    /// <para>An implementation that does not override it gets each message through its own <c>Write</c>, in its own scope.</para>
    /// </remarks>
    /// <param name="handle">The destination.</param>
    /// <param name="openerLine">Filled in by the compiler.</param>
    /// <param name="openerFile">Filled in by the compiler: the warning names it when the writer is never disposed.</param>
    /// <exception cref="ArgumentException">The handle is <c>default</c>.</exception>
    /// <exception cref="ObjectDisposedException">The buffer has stopped.</exception>
    MessageWriter BeginWriting(OutputHandle handle, [CallerLineNumber] int openerLine = 0, [CallerFilePath] string openerFile = "") =>
        WriterSegment.Begin(this, handle, BeginBufferingScope(handle, maxHold: null, openerLine, openerFile));

    /// <summary>Closes the scope on the handle that was opened last and is still open. Use it when a scope begins and ends in different methods.</summary>
    /// <returns>False when none is open, for example because <see cref="OutputBufferOptions.MaxScopeAge"/> ended it.</returns>
    bool EndBufferingScope(OutputHandle handle);

    /// <summary>Writes one message if the buffer has capacity for it.</summary>
    /// <param name="handle">The destination.</param>
    /// <param name="payload">The message's bytes; copied.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    /// <returns>True when it was accepted; false when the buffer is full (see <see cref="OverflowPolicy"/>) or has stopped.</returns>
    /// <exception cref="ArgumentException">The handle is <c>default</c>, or the header has an unknown kind or a text that is too long.</exception>
    /// <exception cref="OutputOverflowException">The message alone is larger than <see cref="OutputBufferOptions.MaxMessageBytes"/> or a
    /// route's limit: it will never fit.</exception>
    bool TryWrite(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header = null);

    /// <summary>Writes one message that is encoded straight into the batch, if the buffer has capacity for it.</summary>
    /// <inheritdoc cref="Write{TState}" path="/*[self::typeparam or self::param or self::remarks]"/>
    /// <inheritdoc cref="TryWrite(OutputHandle, ReadOnlySpan{byte}, MessageHeader?)" path="/*[self::returns or self::exception]"/>
    bool TryWrite<TState>(OutputHandle handle, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null)
        where TState : allows ref struct;

    /// <summary>Writes one message.</summary>
    /// <inheritdoc cref="TryWrite(OutputHandle, ReadOnlySpan{byte}, MessageHeader?)" path="/param"/>
    /// <exception cref="ArgumentException">The handle is <c>default</c>, or the header has an unknown kind or a text that is too long.</exception>
    /// <exception cref="OutputOverflowException">The buffer is full and the policy does not drop, or the message is larger than a limit.</exception>
    /// <exception cref="ObjectDisposedException">The buffer has stopped.</exception>
    void Write(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header = null);

    /// <summary>Writes one message that is encoded straight into the batch, in a scope without a copy.</summary>
    /// <remarks>
    /// The encoder runs under the handle's lock: it must be short, and it may only write to the memory that it is given. Where the handle's sender may need that lock for output that waits outside a scope, it runs
    /// before, and its bytes are copied. A call of an output buffer inside it throws <see cref="InvalidOperationException"/>. When it throws, nothing is written, and its exception reaches the caller.
    /// </remarks>
    /// <typeparam name="TState">What the encoder needs, also a span or another <c>ref struct</c>; pass it here instead of capturing it, so that no closure is allocated.</typeparam>
    /// <param name="handle">The destination.</param>
    /// <param name="maxBytes">The most bytes that the message takes. Capacity is reserved for them, and limits apply to them.</param>
    /// <param name="state">Handed to the encoder.</param>
    /// <param name="encode">Writes the message and returns how many bytes it wrote.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    /// <exception cref="ArgumentException">The handle is <c>default</c>, or the header has an unknown kind or a text that is too long.</exception>
    /// <exception cref="ArgumentOutOfRangeException">The size is negative.</exception>
    /// <exception cref="InvalidOperationException">The encoder returned a number of bytes outside its memory, or used an output buffer.</exception>
    /// <exception cref="OutputOverflowException">The buffer is full and the policy does not drop, or the message is larger than a limit.</exception>
    /// <exception cref="ObjectDisposedException">The buffer has stopped.</exception>
    void Write<TState>(OutputHandle handle, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null)
        where TState : allows ref struct;

    /// <summary>Writes one message; with <see cref="OverflowPolicy.Wait"/> it waits for capacity.</summary>
    /// <remarks>
    /// While a writer waits, nothing is held back: what open scopes hold is sealed and queued, including the writer's own scopes, so waiting inside a
    /// scope cannot deadlock. Inside a transport's send, it fails instead of waiting; otherwise the send would wait for itself. Cancellation is atomic: a message is either
    /// accepted whole or not at all. Every error is in the task, except that of a call inside an encoder.
    /// </remarks>
    /// <param name="handle">The destination.</param>
    /// <param name="payload">The message's bytes; copied, so you may reuse the memory when the task has ended.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    /// <param name="cancellationToken">Ends the wait for capacity.</param>
    /// <exception cref="ArgumentException">The handle is <c>default</c>, or the header has an unknown kind or a text that is too long.</exception>
    /// <exception cref="OutputOverflowException">The buffer is full and the policy is to fail, or the message is larger than a limit.</exception>
    /// <exception cref="OperationCanceledException">The token was cancelled before there was capacity.</exception>
    /// <exception cref="ObjectDisposedException">The buffer has stopped.</exception>
    ValueTask WriteAsync(
        OutputHandle handle, ReadOnlyMemory<byte> payload, MessageHeader? header = null, CancellationToken cancellationToken = default);

    /// <summary>Writes the latest value of a key, such as a position or a reading. While an older one with the same key waits, it takes that one's place, so that a slow receiver gets the newest and no backlog.</summary>
    /// <remarks>
    /// <para>What a sender has taken is sent, and retried, unchanged. A value arrives where the one that it replaced would have: it may overtake earlier <see cref="Write(OutputHandle, ReadOnlySpan{byte}, MessageHeader?)"/>s, also
    /// to other handles, and is settled with what was written with the replaced one, whose scope or flush reports its loss. It never arrives behind what is written after it. If other messages change the same state, use another key
    /// after each of them. A larger value whose batch is full goes behind what waits, and so does one that excludes a connection which the older one does not (<see cref="MessageHeader.ExcludedConnections"/>). What a transport has taken is no longer replaced, except in the queue of a client of <c>BatchKit.Broadcast</c> that reads slowly: there the newest takes its place too.</para>
    /// <para>The value replaced counts in <see cref="OutputStatistics.SupersededMessages"/>. Values of known keys allocate nothing. What a handle remembers is its keys that wait: 72 bytes each, which count in <see cref="OutputBufferOptions.MaxBufferedBytes"/> until a sender has taken the value.</para>
    /// </remarks>
    /// <param name="handle">The destination.</param>
    /// <param name="key">What the value is of, among those of this handle: for example an entity's number.</param>
    /// <param name="payload">The value's bytes; copied.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    /// <inheritdoc cref="Write(OutputHandle, ReadOnlySpan{byte}, MessageHeader?)" path="/exception"/>
    void WriteLatest(OutputHandle handle, long key, ReadOnlySpan<byte> payload, MessageHeader? header = null);

    /// <summary>Writes the latest value of a key, encoded straight into the buffer.</summary>
    /// <inheritdoc cref="Write{TState}" path="/*[self::typeparam or self::exception]"/>
    /// <param name="handle">The destination.</param>
    /// <param name="key">What the value is of; see <see cref="WriteLatest(OutputHandle, long, ReadOnlySpan{byte}, MessageHeader?)"/>.</param>
    /// <param name="maxBytes">The most bytes that the message takes. Capacity is reserved for them, and limits apply to them.</param>
    /// <param name="state">Handed to the encoder.</param>
    /// <param name="encode">Writes the message and returns how many bytes it wrote. When it throws, the older value stays.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    void WriteLatest<TState>(OutputHandle handle, long key, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null)
        where TState : allows ref struct;

    /// <summary>Writes the latest value of a key if the buffer has capacity for it: one that is not larger than the one that it replaces always has. When it returns false, the older value stays.</summary>
    /// <inheritdoc cref="WriteLatest(OutputHandle, long, ReadOnlySpan{byte}, MessageHeader?)" path="/*[self::param or self::remarks]"/>
    /// <inheritdoc cref="TryWrite(OutputHandle, ReadOnlySpan{byte}, MessageHeader?)" path="/*[self::returns or self::exception]"/>
    bool TryWriteLatest(OutputHandle handle, long key, ReadOnlySpan<byte> payload, MessageHeader? header = null);

    /// <inheritdoc cref="TryWriteLatest(OutputHandle, long, ReadOnlySpan{byte}, MessageHeader?)" path="/*[self::summary or self::returns]"/>
    /// <inheritdoc cref="WriteLatest{TState}" path="/*[self::typeparam or self::param]"/>
    /// <inheritdoc cref="TryWrite{TState}" path="/exception"/>
    bool TryWriteLatest<TState>(OutputHandle handle, long key, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null)
        where TState : allows ref struct;

    /// <summary>Seals and queues what is pending for a handle, in open scopes too, and completes when nothing written before it is pending.</summary>
    /// <remarks>It reports, once, what was lost for the handle since the previous flush, without the losses that the end of a scope has reported. Inside a transport's send it completes when the output is queued; otherwise the send would wait for itself.</remarks>
    /// <param name="handle">The destination.</param>
    /// <param name="cancellationToken">Ends the wait, not the sending.</param>
    /// <exception cref="OutputDeliveryException">Messages for the handle were refused, given up or dropped since the previous flush.</exception>
    ValueTask FlushAsync(OutputHandle handle, CancellationToken cancellationToken = default);

    /// <summary>Completes when nothing that was queued for a handle so far is pending. Unlike a flush, it seals nothing: open scopes keep what they hold, and it does not wait for that.</summary>
    /// <remarks>It reports the losses that happen while it waits. Inside a transport's send it completes at once; otherwise the send would wait for itself.</remarks>
    /// <param name="handle">The destination.</param>
    /// <param name="cancellationToken">Ends the wait, not the sending.</param>
    /// <exception cref="OutputDeliveryException">Messages that it waited for were refused, given up or dropped.</exception>
    ValueTask WhenSettledAsync(OutputHandle handle, CancellationToken cancellationToken = default);

    /// <summary>Seals and queues what is pending for every handle, in open scopes too, and completes when nothing written before it is pending.</summary>
    /// <remarks>It reports the losses that happen while it waits. Inside a transport's send it completes when the output is queued.</remarks>
    /// <param name="cancellationToken">Ends the wait, not the sending.</param>
    /// <exception cref="OutputDeliveryException">Messages that it waited for were refused, given up or dropped.</exception>
    ValueTask FlushAsync(CancellationToken cancellationToken = default);

    /// <summary>Reads the counters. It walks all live handles, so call it for a page or a test, not on a hot path.</summary>
    OutputStatistics GetStatistics();
}

/// <summary>Encodes a message into memory of its batch. See <see cref="IOutputBuffer.Write{TState}"/>.</summary>
/// <typeparam name="TState">What the encoder needs.</typeparam>
/// <param name="destination">The memory, of the size that the caller asked for. Valid until the encoder returns.</param>
/// <param name="state">The state that the caller passed.</param>
/// <returns>How many bytes it wrote, from the start of the memory.</returns>
public delegate int MessageEncoder<in TState>(Span<byte> destination, TState state)
    where TState : allows ref struct;

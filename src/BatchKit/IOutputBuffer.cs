using System.Runtime.CompilerServices;

namespace BatchKit;

/// <summary>Takes the many small messages of a loop and sends them on as few large ones, in order.</summary>
/// <remarks>
/// Every member may be called from any thread, and from inside a transport's send. Output for one handle leaves in the order in which its
/// writes returned. A payload is copied before the call returns; the caller keeps its memory.
/// </remarks>
public interface IOutputBuffer
{
    /// <summary>Holds back a handle's output until the scope is disposed. Scopes nest and are counted, across threads.</summary>
    /// <remarks>
    /// <para>While it is open, the output of every writer for the handle waits. When the last scope closes, all of it leaves in one send. Only
    /// the byte budget, a flush and <see cref="OutputBufferOptions.MaxScopeAge"/> end the holding earlier. Allocates nothing in the steady state.</para>
    /// <para>With a limit, what the scope holds leaves when it closes, or when <paramref name="maxHold"/> has passed since the first message that it holds, whichever is first, and the
    /// scope goes on: for a tick, or for a queue of commands that runs later than the loop that filled it. It may stay open for as long as you like. While a scope without a limit is open for the
    /// same handle as well, its output waits for the end of that scope. Where several scopes on the handle have limits, the longest holds; an ambient scope's own limit is counted apart.</para>
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
    /// <para>The flow's first write to a handle takes a scope on it. When the outermost ambient scope closes, all that was gathered leaves in the order in which it was written, in one
    /// send a partition. The scope follows <c>await</c> and tasks started inside it. A scope that an async helper opens is invisible to the helper's
    /// caller: open it in the method that owns the loop. Opening allocates some 150 bytes, because .NET copies the execution context.</para>
    /// <para>With a limit, what it gathered leaves when it closes, or when the limit has passed since its first message; then the scope goes on with the next ones. An ambient scope that is
    /// opened inside another one joins it, and the limit of the outer one holds. See <see cref="BeginBufferingScope(OutputHandle, TimeSpan?, int, string)"/>.</para>
    /// </remarks>
    /// <param name="maxHold">The limit, above zero and at most one day; null, the default, for none.</param>
    /// <param name="openerLine">Filled in by the compiler.</param>
    /// <param name="openerFile">Filled in by the compiler: the warning names it when the scope is never closed.</param>
    /// <exception cref="ArgumentOutOfRangeException">The limit is outside its range.</exception>
    /// <exception cref="ObjectDisposedException">The buffer has stopped.</exception>
    BufferingScope BeginBufferingScope(TimeSpan? maxHold = null, [CallerLineNumber] int openerLine = 0, [CallerFilePath] string openerFile = "");

    /// <summary>Closes the scope on the handle that was opened last and is still open, for a begin and an end in different methods.</summary>
    /// <returns>False when none is open, as after the scope watch closed it.</returns>
    bool EndBufferingScope(OutputHandle handle);

    /// <summary>Writes one message if the buffer has capacity for it.</summary>
    /// <param name="handle">The destination.</param>
    /// <param name="payload">The message's bytes; copied.</param>
    /// <param name="header">What the message says about itself; null for a plain message.</param>
    /// <returns>True when it was accepted; false when the buffer is full (see <see cref="OverflowPolicy"/>) or has stopped.</returns>
    /// <exception cref="ArgumentException">The handle is <c>default</c>.</exception>
    /// <exception cref="OutputOverflowException">The message alone is larger than <see cref="OutputBufferOptions.MaxMessageBytes"/> or a
    /// route's limit: it will never fit.</exception>
    bool TryWrite(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header = null);

    /// <summary>Writes one message that is encoded straight into the batch, if the buffer has capacity for it.</summary>
    /// <inheritdoc cref="Write{TState}" path="/*[self::typeparam or self::param or self::remarks]"/>
    /// <inheritdoc cref="TryWrite(OutputHandle, ReadOnlySpan{byte}, MessageHeader?)" path="/*[self::returns or self::exception]"/>
    bool TryWrite<TState>(OutputHandle handle, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null);

    /// <summary>Writes one message.</summary>
    /// <inheritdoc cref="TryWrite(OutputHandle, ReadOnlySpan{byte}, MessageHeader?)" path="/param"/>
    /// <exception cref="ArgumentException">The handle is <c>default</c>.</exception>
    /// <exception cref="OutputOverflowException">The buffer is full and the policy does not drop, or the message is larger than a limit.</exception>
    /// <exception cref="ObjectDisposedException">The buffer has stopped.</exception>
    void Write(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header = null);

    /// <summary>Writes one message that is encoded straight into the batch, without a copy.</summary>
    /// <remarks>
    /// The encoder runs under the handle's lock: it must be short, and it may only write to the memory that it is given. A call of an output buffer inside it
    /// throws <see cref="InvalidOperationException"/>. When it throws, nothing is written, and its exception reaches the caller.
    /// </remarks>
    /// <typeparam name="TState">What the encoder needs; pass it here rather than capture it, so that no closure is allocated.</typeparam>
    /// <param name="handle">The destination.</param>
    /// <param name="maxBytes">The most bytes that the message takes. Capacity is reserved for them, and limits apply to them.</param>
    /// <param name="state">Handed to the encoder.</param>
    /// <param name="encode">Writes the message and returns how many bytes it wrote.</param>
    /// <param name="header">What the message says about itself; null for a plain message.</param>
    /// <exception cref="ArgumentException">The handle is <c>default</c>.</exception>
    /// <exception cref="ArgumentOutOfRangeException">The size is negative.</exception>
    /// <exception cref="InvalidOperationException">The encoder returned a number of bytes outside its memory, or used an output buffer.</exception>
    /// <exception cref="OutputOverflowException">The buffer is full and the policy does not drop, or the message is larger than a limit.</exception>
    /// <exception cref="ObjectDisposedException">The buffer has stopped.</exception>
    void Write<TState>(OutputHandle handle, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null);

    /// <summary>Writes one message; with <see cref="OverflowPolicy.Wait"/> it waits for capacity.</summary>
    /// <remarks>
    /// While a writer waits, nothing is held back: what is open is sealed and queued, the waiter's own scopes included, so waiting inside a
    /// scope cannot deadlock. Inside a transport's send there is nothing to wait for, and it throws instead. Cancellation is atomic: a message is either
    /// accepted whole or not at all.
    /// </remarks>
    /// <param name="handle">The destination.</param>
    /// <param name="payload">The message's bytes; copied, so the memory is the caller's again when the task has ended.</param>
    /// <param name="header">What the message says about itself; null for a plain message.</param>
    /// <param name="cancellationToken">Ends the wait for capacity.</param>
    /// <exception cref="ArgumentException">The handle is <c>default</c>.</exception>
    /// <exception cref="OutputOverflowException">The buffer is full and the policy is to fail, or the message is larger than a limit.</exception>
    /// <exception cref="OperationCanceledException">The token was cancelled before there was capacity.</exception>
    /// <exception cref="ObjectDisposedException">The buffer has stopped.</exception>
    ValueTask WriteAsync(
        OutputHandle handle, ReadOnlyMemory<byte> payload, MessageHeader? header = null, CancellationToken cancellationToken = default);

    /// <summary>Seals and queues what is pending for a handle, in open scopes too, and completes when nothing written before it is pending.</summary>
    /// <remarks>It reports what was lost for the handle since the flush before it, once; what the end of a scope has reported is not reported again. From inside a transport's send it completes when queued, because that send could not end otherwise.</remarks>
    /// <param name="handle">The destination.</param>
    /// <param name="cancellationToken">Ends the wait, not the sending.</param>
    /// <exception cref="OutputDeliveryException">Messages for the handle were refused, given up or dropped since the flush before.</exception>
    ValueTask FlushAsync(OutputHandle handle, CancellationToken cancellationToken = default);

    /// <summary>Seals and queues what is pending for every handle, in open scopes too, and completes when nothing written before it is pending.</summary>
    /// <remarks>It reports what was lost of what it waited for. From inside a transport's send it completes when queued.</remarks>
    /// <param name="cancellationToken">Ends the wait, not the sending.</param>
    /// <exception cref="OutputDeliveryException">Delivery of some of it was given up.</exception>
    ValueTask FlushAsync(CancellationToken cancellationToken = default);

    /// <summary>Reads the counters. Walks the live handles: for a page or a test, not for a hot path.</summary>
    OutputStatistics GetStatistics();
}

/// <summary>Encodes a message into memory of its batch. See <see cref="IOutputBuffer.Write{TState}"/>.</summary>
/// <typeparam name="TState">What it needs.</typeparam>
/// <param name="destination">The memory, of the size that was asked for. Valid until the encoder returns.</param>
/// <param name="state">What the caller handed over.</param>
/// <returns>How many bytes it wrote, from the start of the memory.</returns>
public delegate int MessageEncoder<in TState>(Span<byte> destination, TState state);

using System.Runtime.CompilerServices;

namespace BatchKit;

/// <summary>Takes the many small messages of a loop and sends them on as few large ones, in order.</summary>
/// <remarks>
/// Every member may be called from any thread, and from inside a transport's send. Output for one handle leaves in the order in which its
/// writes returned. A payload is copied before the call returns; the caller keeps its memory.
/// </remarks>
public interface IOutputBuffer
{
    /// <summary>Holds back a handle's output until the scope is disposed; scopes nest and are counted, across threads.</summary>
    /// <remarks>
    /// While it is open, any writer's output for the handle waits. When the last one closes, all of it is sealed and queued as one batch,
    /// or as several where it passed the batch's limits. Allocates nothing in the steady state.
    /// </remarks>
    /// <param name="handle">The destination.</param>
    /// <param name="openerFile">Filled in by the compiler: named in the warning when the scope is never closed.</param>
    /// <param name="openerLine">Filled in by the compiler.</param>
    /// <exception cref="ArgumentException">The handle is <c>default</c>.</exception>
    /// <exception cref="ObjectDisposedException">The buffer has stopped.</exception>
    BufferingScope BeginBufferingScope(
        OutputHandle handle, [CallerFilePath] string openerFile = "", [CallerLineNumber] int openerLine = 0);

    /// <summary>Holds back the output for every handle that this async flow writes to, until the scope is disposed.</summary>
    /// <remarks>
    /// The flow's first write to a handle takes a scope on it; when the outermost ambient scope closes, all that was gathered leaves, in one
    /// send a partition. It follows <c>await</c> and tasks started inside it. Opened inside an async helper, it is invisible to the helper's
    /// caller: open it in the method that owns the loop. Opening allocates some 150 bytes, because .NET copies the execution context.
    /// </remarks>
    /// <exception cref="ObjectDisposedException">The buffer has stopped.</exception>
    BufferingScope BeginBufferingScope([CallerFilePath] string openerFile = "", [CallerLineNumber] int openerLine = 0);

    /// <summary>Closes the scope on the handle that was opened last and is still open, for a begin and an end in different methods.</summary>
    /// <returns>False when none is open, as after the scope watch closed it.</returns>
    bool EndBufferingScope(OutputHandle handle);

    /// <summary>Writes one message if there is room.</summary>
    /// <param name="handle">The destination.</param>
    /// <param name="payload">The message's bytes; copied.</param>
    /// <param name="header">What the message says about itself; null for a plain message.</param>
    /// <returns>True when it was accepted; false when there was no room (see <see cref="OverflowPolicy"/>) or the buffer has stopped.</returns>
    /// <exception cref="ArgumentException">The handle is <c>default</c>.</exception>
    /// <exception cref="OutputOverflowException">The message alone is larger than <see cref="OutputBufferOptions.MaxMessageBytes"/> or a
    /// route's limit: it will never fit.</exception>
    bool TryWrite(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header = null);

    /// <summary>Writes one message.</summary>
    /// <inheritdoc cref="TryWrite" path="/param"/>
    /// <exception cref="ArgumentException">The handle is <c>default</c>.</exception>
    /// <exception cref="OutputOverflowException">There was no room and the policy does not drop, or the message is larger than a limit.</exception>
    /// <exception cref="ObjectDisposedException">The buffer has stopped.</exception>
    void Write(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header = null);

    /// <summary>Writes one message; with <see cref="OverflowPolicy.Wait"/> it waits for room.</summary>
    /// <remarks>
    /// While a writer waits, nothing is held back: what is open is sealed and queued, the waiter's own scopes included, so waiting inside a
    /// scope cannot deadlock. Inside a transport's send there is nothing to wait for, and it throws instead. A message that was cancelled
    /// is wholly out; once accepted it is wholly in.
    /// </remarks>
    /// <param name="handle">The destination.</param>
    /// <param name="payload">The message's bytes; copied, so the memory is the caller's again when the task has ended.</param>
    /// <param name="header">What the message says about itself; null for a plain message.</param>
    /// <param name="cancellationToken">Ends the wait for room.</param>
    /// <exception cref="ArgumentException">The handle is <c>default</c>.</exception>
    /// <exception cref="OutputOverflowException">There was no room and the policy is to fail, or the message is larger than a limit.</exception>
    /// <exception cref="OperationCanceledException">The token was cancelled before there was room.</exception>
    /// <exception cref="ObjectDisposedException">The buffer has stopped.</exception>
    ValueTask WriteAsync(
        OutputHandle handle, ReadOnlyMemory<byte> payload, MessageHeader? header = null, CancellationToken cancellationToken = default);

    /// <summary>Seals and queues what is pending for a handle, in open scopes too, and completes when it and all before it is settled.</summary>
    /// <remarks>From inside a transport's send it completes when queued, because that send could not end otherwise.</remarks>
    /// <param name="handle">The destination.</param>
    /// <param name="cancellationToken">Ends the wait, not the sending.</param>
    /// <exception cref="OutputDeliveryException">Delivery of some of it was given up.</exception>
    ValueTask FlushAsync(OutputHandle handle, CancellationToken cancellationToken = default);

    /// <summary>The same for every handle.</summary>
    /// <inheritdoc cref="FlushAsync(OutputHandle, CancellationToken)"/>
    ValueTask FlushAsync(CancellationToken cancellationToken = default);

    /// <summary>Reads the counters. Walks the live handles: for a page or a test, not for a hot path.</summary>
    OutputStatistics GetStatistics();
}

using System.Runtime.CompilerServices;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Testing;

/// <summary>An output buffer for tests of code that writes: a real <see cref="OutputBuffer"/> whose batches are collected.</summary>
/// <remarks>
/// Scopes, nesting, order, flushes, limits and statistics are those of the real buffer. The output of a closed scope or of <see cref="FlushAsync(CancellationToken)"/> has been collected
/// when its task completes; <see cref="WaitForMessagesAsync(long)"/> waits for what was written outside scopes. Every member may be called from any thread.
/// </remarks>
public sealed class CollectingOutputBuffer : IOutputBuffer, IAsyncDisposable, IDisposable
{
    private readonly CollectingTransport _collected;
    private readonly OutputBuffer _buffer;

    /// <summary>Creates the buffer.</summary>
    /// <param name="options">The buffer's settings; the defaults when null.</param>
    /// <param name="timeProvider">The buffer's clock, for instance a <see cref="ManualTimeProvider"/>; the system's by default.</param>
    /// <param name="logger">Gets the buffer's warnings; none by default.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">An option is outside its range; the message names it.</exception>
    public CollectingOutputBuffer(OutputBufferOptions? options = null, TimeProvider? timeProvider = null, ILogger<OutputBuffer>? logger = null)
    {
        _collected = new CollectingTransport();
        Transport = new ScriptedTransport(_collected, sendsWithoutBlocking: true);
        _buffer = new OutputBuffer(Transport, options, timeProvider: timeProvider, logger: logger);
    }

    /// <summary>The buffer's transport. Its script decides which sends fail, stall or refuse a batch; the others are collected.</summary>
    public ScriptedTransport Transport { get; }

    /// <summary>The batches that were sent, in order; a copy. A scope's messages for one handle are one batch, within the limits of the options.</summary>
    public IReadOnlyList<CollectedBatch> Batches => _collected.Batches;

    /// <summary>The messages that were sent, in order; a copy.</summary>
    public IReadOnlyList<CollectedMessage> Messages => _collected.Messages;

    /// <summary>The payloads of the messages that were sent, as UTF-8, in order.</summary>
    public IReadOnlyList<string> Texts => _collected.Texts;

    /// <summary>The messages for one handle that were sent, in order.</summary>
    /// <param name="handle">The destination.</param>
    public IReadOnlyList<CollectedMessage> MessagesFor(OutputHandle handle) => _collected.MessagesFor(handle);

    /// <summary>The payloads of the messages for one handle that were sent, as UTF-8, in order.</summary>
    /// <param name="handle">The destination.</param>
    public IReadOnlyList<string> TextsFor(OutputHandle handle) => _collected.TextsFor(handle);

    /// <summary>Completes once this many messages were sent, for all handles together.</summary>
    /// <inheritdoc cref="CollectingTransport.WaitForMessagesAsync(long)"/>
    public Task WaitForMessagesAsync(long count) => _collected.WaitForMessagesAsync(count);

    /// <summary>Completes once this many messages were sent for one handle.</summary>
    /// <inheritdoc cref="CollectingTransport.WaitForMessagesAsync(OutputHandle, long)"/>
    public Task WaitForMessagesAsync(OutputHandle handle, long count) => _collected.WaitForMessagesAsync(handle, count);

    /// <inheritdoc/>
    public BufferingScope BeginBufferingScope(
        OutputHandle handle, TimeSpan? maxHold = null, [CallerLineNumber] int openerLine = 0, [CallerFilePath] string openerFile = "") =>
        _buffer.BeginBufferingScope(handle, maxHold, openerLine, openerFile);

    /// <inheritdoc/>
    public BufferingScope BeginBufferingScope(TimeSpan? maxHold = null, [CallerLineNumber] int openerLine = 0, [CallerFilePath] string openerFile = "") =>
        _buffer.BeginBufferingScope(maxHold, openerLine, openerFile);

    /// <inheritdoc/>
    public MessageWriter BeginWriting(OutputHandle handle, [CallerLineNumber] int openerLine = 0, [CallerFilePath] string openerFile = "") =>
        _buffer.BeginWriting(handle, openerLine, openerFile);

    /// <inheritdoc/>
    public bool EndBufferingScope(OutputHandle handle) => _buffer.EndBufferingScope(handle);

    /// <inheritdoc/>
    public bool TryWrite(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header = null) => _buffer.TryWrite(handle, payload, header);

    /// <inheritdoc/>
    public bool TryWrite<TState>(OutputHandle handle, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null)
        where TState : allows ref struct => _buffer.TryWrite(handle, maxBytes, state, encode, header);

    /// <inheritdoc/>
    public void Write<TState>(OutputHandle handle, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null)
        where TState : allows ref struct => _buffer.Write(handle, maxBytes, state, encode, header);

    /// <inheritdoc/>
    public void Write(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header = null) => _buffer.Write(handle, payload, header);

    /// <inheritdoc/>
    public ValueTask WriteAsync(OutputHandle handle, ReadOnlyMemory<byte> payload, MessageHeader? header = null, CancellationToken cancellationToken = default) =>
        _buffer.WriteAsync(handle, payload, header, cancellationToken);

    /// <inheritdoc/>
    public void WriteLatest(OutputHandle handle, long key, ReadOnlySpan<byte> payload, MessageHeader? header = null) => _buffer.WriteLatest(handle, key, payload, header);

    /// <inheritdoc/>
    public void WriteLatest<TState>(OutputHandle handle, long key, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null)
        where TState : allows ref struct => _buffer.WriteLatest(handle, key, maxBytes, state, encode, header);

    /// <inheritdoc/>
    public bool TryWriteLatest(OutputHandle handle, long key, ReadOnlySpan<byte> payload, MessageHeader? header = null) => _buffer.TryWriteLatest(handle, key, payload, header);

    /// <inheritdoc/>
    public bool TryWriteLatest<TState>(OutputHandle handle, long key, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null)
        where TState : allows ref struct => _buffer.TryWriteLatest(handle, key, maxBytes, state, encode, header);

    /// <inheritdoc/>
    public ValueTask FlushAsync(OutputHandle handle, CancellationToken cancellationToken = default) => _buffer.FlushAsync(handle, cancellationToken);

    /// <inheritdoc/>
    public ValueTask FlushAsync(CancellationToken cancellationToken = default) => _buffer.FlushAsync(cancellationToken);

    /// <inheritdoc/>
    public ValueTask WhenSettledAsync(OutputHandle handle, CancellationToken cancellationToken = default) => _buffer.WhenSettledAsync(handle, cancellationToken);

    /// <inheritdoc/>
    public OutputStatistics GetStatistics() => _buffer.GetStatistics();

    /// <summary>Does what <see cref="DisposeAsync"/> does, and blocks its caller meanwhile.</summary>
    public void Dispose() => _buffer.Dispose();

    /// <summary>Sends what is pending, in open scopes too, and stops the buffer. What was collected can still be read.</summary>
    /// <remarks>It waits for a stalled send until <see cref="OutputBufferOptions.DrainTimeout"/> has passed on the buffer's clock: release the send before.</remarks>
    public ValueTask DisposeAsync() => _buffer.DisposeAsync();
}

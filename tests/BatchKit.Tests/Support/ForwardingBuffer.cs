using System.Runtime.CompilerServices;

namespace BatchKit.Tests.Support;

/// <summary>A buffer of another's making, which knows nothing of writers.</summary>
internal sealed class ForwardingBuffer(IOutputBuffer next) : IOutputBuffer
{
    public BufferingScope BeginBufferingScope(OutputHandle handle, TimeSpan? maxHold = null, [CallerLineNumber] int openerLine = 0, [CallerFilePath] string openerFile = "") => next.BeginBufferingScope(handle, maxHold, openerLine, openerFile);

    public BufferingScope BeginBufferingScope(TimeSpan? maxHold = null, [CallerLineNumber] int openerLine = 0, [CallerFilePath] string openerFile = "") => next.BeginBufferingScope(maxHold, openerLine, openerFile);

    public bool EndBufferingScope(OutputHandle handle) => next.EndBufferingScope(handle);

    public bool TryWrite(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header = null) => next.TryWrite(handle, payload, header);

    public bool TryWrite<TState>(OutputHandle handle, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null)
        where TState : allows ref struct => next.TryWrite(handle, maxBytes, state, encode, header);

    public void Write(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header = null) => next.Write(handle, payload, header);

    public void Write<TState>(OutputHandle handle, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null)
        where TState : allows ref struct => next.Write(handle, maxBytes, state, encode, header);

    public ValueTask WriteAsync(OutputHandle handle, ReadOnlyMemory<byte> payload, MessageHeader? header = null, CancellationToken cancellationToken = default) => throw new NotSupportedException();

    public void WriteLatest(OutputHandle handle, long key, ReadOnlySpan<byte> payload, MessageHeader? header = null) => throw new NotSupportedException();

    public void WriteLatest<TState>(OutputHandle handle, long key, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null)
        where TState : allows ref struct => throw new NotSupportedException();

    public bool TryWriteLatest(OutputHandle handle, long key, ReadOnlySpan<byte> payload, MessageHeader? header = null) => throw new NotSupportedException();

    public bool TryWriteLatest<TState>(OutputHandle handle, long key, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null)
        where TState : allows ref struct => throw new NotSupportedException();

    public ValueTask FlushAsync(OutputHandle handle, CancellationToken cancellationToken = default) => throw new NotSupportedException();

    public ValueTask FlushAsync(CancellationToken cancellationToken = default) => throw new NotSupportedException();

    public ValueTask WhenSettledAsync(OutputHandle handle, CancellationToken cancellationToken = default) => throw new NotSupportedException();

    public OutputStatistics GetStatistics() => next.GetStatistics();
}

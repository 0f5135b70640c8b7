using System.Buffers;
using System.Runtime.CompilerServices;
using BatchKit.Batches;
using BatchKit.Buffering;

namespace BatchKit;

/// <summary>Writes a loop's messages for one handle, without a lock for each. See <see cref="IOutputBuffer.BeginWriting"/>.</summary>
/// <remarks>
/// A <c>ref struct</c>: it stays on the thread that began it, and can't be kept across an <c>await</c>. Its messages take their place in the handle's order together: when it is disposed, or earlier when a flush, the
/// end of its scope by age, or missing capacity needs them. The messages of others are before or behind them, never between. It is also an <see cref="IBufferWriter{T}"/>: the bytes written through it become a
/// message at <see cref="EndMessage"/>. After its disposal it, and each copy, throws <see cref="ObjectDisposedException"/>.
/// </remarks>
public readonly ref struct MessageWriter : IBufferWriter<byte>, IDisposable
{
    private readonly WriterSegment? _segment;
    private readonly long _version;

    internal MessageWriter(WriterSegment segment, long version)
    {
        _segment = segment;
        _version = version;
    }

    private WriterSegment Segment => _segment ?? throw WriterSegment.Closed();

    /// <inheritdoc cref="IOutputBuffer.Write(OutputHandle, ReadOnlySpan{byte}, MessageHeader?)" path="/*[self::summary or self::exception]"/>
    /// <param name="payload">The message's bytes; copied.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    public void Write(ReadOnlySpan<byte> payload, MessageHeader? header = null)
    {
        var segment = Segment;
        if (header is null && segment.TryAppendPlain(_version, payload))
            return;
        var copied = new CopiedPayload(payload);
        if (!segment.TryAppend(_version, ref copied, header))
            segment.Output.Write(segment.Handle, payload, header);
    }

    /// <inheritdoc cref="IOutputBuffer.Write{TState}" path="/*[self::summary or self::typeparam or self::exception]"/>
    /// <remarks>The encoder may only write to the memory that it is given; see <see cref="IOutputBuffer.Write{TState}"/>.</remarks>
    /// <param name="maxBytes">The most bytes that the message takes.</param>
    /// <param name="state">Handed to the encoder.</param>
    /// <param name="encode">Writes the message and returns how many bytes it wrote.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    public void Write<TState>(int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null)
        where TState : allows ref struct
    {
        var segment = Segment;
        var encoded = EncodedPayload<TState>.Create(maxBytes, state, encode);
        if (!segment.TryAppend(_version, ref encoded, header))
            segment.Output.Write(segment.Handle, maxBytes, state, encode, header);
    }

    /// <summary>Writes text as one UTF-8 message.</summary>
    /// <inheritdoc cref="Write(ReadOnlySpan{byte}, MessageHeader?)" path="/exception"/>
    /// <param name="text">The message.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    public void Write(string text, MessageHeader? header = null)
    {
        ArgumentNullException.ThrowIfNull(text);
        Write(text.AsSpan(), header);
    }

    /// <inheritdoc cref="Write(string, MessageHeader?)"/>
    public void Write(ReadOnlySpan<char> text, MessageHeader? header = null)
    {
        var formatted = OutputInterpolatedStringHandler.Encode(text);
        Write(ref formatted, header);
    }

    /// <summary>Writes an interpolated string as one UTF-8 message.</summary>
    /// <inheritdoc cref="Write(string, MessageHeader?)"/>
    public void Write(ref OutputInterpolatedStringHandler text, MessageHeader? header = null)
    {
        try
        {
            Write(text.Written.Span, header);
        }
        finally
        {
            text.Release();
        }
    }

    /// <summary>Writes an interpolated string as one UTF-8 message, with its values formatted for a culture.</summary>
    /// <inheritdoc cref="Write(string, MessageHeader?)" path="/exception"/>
    /// <param name="provider">Formats the values; the current culture when null.</param>
    /// <param name="text">The message.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    public void Write(IFormatProvider? provider, [InterpolatedStringHandlerArgument(nameof(provider))] ref OutputInterpolatedStringHandler text, MessageHeader? header = null) => Write(ref text, header);

    /// <inheritdoc cref="OutputBufferExtensions.Write(IOutputBuffer, OutputHandle, ControlMessage)" path="/summary"/>
    /// <param name="control">What the last hop does.</param>
    public void Write(ControlMessage control) => Write(control.ToPayload(), MessageHeader.Control);

    /// <inheritdoc cref="IOutputBuffer.TryWrite(OutputHandle, ReadOnlySpan{byte}, MessageHeader?)" path="/*[self::summary or self::returns or self::exception]"/>
    /// <param name="payload">The message's bytes; copied.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    public bool TryWrite(ReadOnlySpan<byte> payload, MessageHeader? header = null)
    {
        var segment = Segment;
        if (header is null && segment.TryAppendPlain(_version, payload))
            return true;
        var copied = new CopiedPayload(payload);
        return segment.TryAppend(_version, ref copied, header) || segment.Output.TryWrite(segment.Handle, payload, header);
    }

    /// <inheritdoc cref="IOutputBuffer.TryWrite{TState}" path="/summary"/>
    /// <inheritdoc cref="Write{TState}" path="/*[self::typeparam or self::param or self::remarks]"/>
    /// <inheritdoc cref="TryWrite(ReadOnlySpan{byte}, MessageHeader?)" path="/*[self::returns or self::exception]"/>
    public bool TryWrite<TState>(int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header = null)
        where TState : allows ref struct
    {
        var segment = Segment;
        var encoded = EncodedPayload<TState>.Create(maxBytes, state, encode);
        return segment.TryAppend(_version, ref encoded, header) || segment.Output.TryWrite(segment.Handle, maxBytes, state, encode, header);
    }

    /// <summary>Gets memory for more bytes of the message that <see cref="EndMessage"/> completes.</summary>
    /// <param name="sizeHint">The least that is needed.</param>
    public Span<byte> GetSpan(int sizeHint = 0) => Segment.MessageOf(_version).GetSpan(sizeHint);

    /// <inheritdoc cref="GetSpan"/>
    public Memory<byte> GetMemory(int sizeHint = 0) => Segment.MessageOf(_version).GetMemory(sizeHint);

    /// <summary>Adds bytes that were written to the memory of <see cref="GetSpan"/> or <see cref="GetMemory"/> to the message.</summary>
    /// <param name="count">How many.</param>
    /// <exception cref="InvalidOperationException">The memory has not so many.</exception>
    public void Advance(int count) => Segment.MessageOf(_version).Advance(count);

    /// <summary>Writes the bytes that were added since the previous message as one. Without it they are discarded when the writer is disposed; so they are when this call throws.</summary>
    /// <inheritdoc cref="Write(ReadOnlySpan{byte}, MessageHeader?)" path="/exception"/>
    /// <param name="header">The message's header; null for a plain message.</param>
    public void EndMessage(MessageHeader? header = null)
    {
        var message = Segment.MessageOf(_version);
        try
        {
            Write(message.WrittenSpan, header);
        }
        finally
        {
            message.ResetWrittenCount();
        }
    }

    /// <summary>The writer as an object, for serializers. It allocates 32 bytes, and throws on another thread, and after the writer was disposed.</summary>
    public IBufferWriter<byte> AsBufferWriter() => new View(Segment, _version);

    /// <summary>Puts the messages into the handle's order and closes the scope. It never blocks, and later calls do nothing.</summary>
    /// <exception cref="InvalidOperationException">A <see cref="MessageEncoder{TState}"/> called it. The writer stays open.</exception>
    public void Dispose() => _segment?.Close(_version);

    private sealed class View(WriterSegment segment, long version) : IBufferWriter<byte>
    {
        public void Advance(int count) => segment.MessageOf(version).Advance(count);

        public Memory<byte> GetMemory(int sizeHint = 0) => segment.MessageOf(version).GetMemory(sizeHint);

        public Span<byte> GetSpan(int sizeHint = 0) => segment.MessageOf(version).GetSpan(sizeHint);
    }
}

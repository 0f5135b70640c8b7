using System.Buffers;

namespace BatchKit;

/// <summary>Writes values as messages to an output buffer, encoded by a codec.</summary>
/// <remarks>
/// Every member may be called from any thread. A value is encoded before the call returns and before the buffer takes a lock, so it may
/// change afterwards. A write that does not wait allocates only what the codec allocates. It is a type of its own, and not a buffer, so
/// that text and bytes can't be mistaken for values: write those to <see cref="Buffer"/>.
/// </remarks>
public sealed class TypedOutput
{
    private const int FirstBytes = 1024;

    // Memory of a thread that once wrote a large value is not kept.
    private const int MaxKeptBytes = 64 * 1024;

    // Null while it is in use: a value that writes another while it is encoded gets memory of its own.
    [ThreadStatic]
    private static ArrayBufferWriter<byte>? _kept;

    private readonly IMessageCodec _codec;

    /// <summary>Creates a writer of values.</summary>
    /// <param name="buffer">Where the messages are written.</param>
    /// <param name="codec">Encodes the values.</param>
    public TypedOutput(IOutputBuffer buffer, IMessageCodec codec)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        ArgumentNullException.ThrowIfNull(codec);
        Buffer = buffer;
        _codec = codec;
    }

    /// <summary>The buffer that the messages are written to. Open scopes and write text and bytes there.</summary>
    public IOutputBuffer Buffer { get; }

    /// <summary>Writes a value as one message.</summary>
    /// <typeparam name="T">The type that the receiver dispatches by: the declared type, even when the value's own type derives from it.</typeparam>
    /// <param name="handle">The destination.</param>
    /// <param name="value">The value.</param>
    /// <param name="header">
    /// What the message carries besides its type, such as a key; null for nothing. Without a <see cref="MessageHeader.Type"/>, each write copies
    /// it and adds the codec's type. To avoid the copy, set <see cref="MessageHeader.Type"/> and <see cref="MessageHeader.ContentType"/> yourself: the header is then used unchanged.
    /// </param>
    /// <inheritdoc cref="IOutputBuffer.Write(OutputHandle, ReadOnlySpan{byte}, MessageHeader?)" path="/exception"/>
    /// <exception cref="NotSupportedException">The codec does not know the type.</exception>
    public void Write<T>(OutputHandle handle, T value, MessageHeader? header = null)
    {
        var payload = Encode(value);
        try
        {
            Buffer.Write(handle, payload.WrittenSpan, HeaderOf<T>(header));
        }
        finally
        {
            Keep(payload);
        }
    }

    /// <summary>Writes a value as one message through a <see cref="MessageWriter"/>.</summary>
    /// <inheritdoc cref="Write{T}(OutputHandle, T, MessageHeader?)" path="/*[self::typeparam or self::exception]"/>
    /// <param name="writer">Of <see cref="IOutputBuffer.BeginWriting"/>.</param>
    /// <param name="value">The value.</param>
    /// <param name="header">What the message carries besides its type; null for nothing.</param>
    public void Write<T>(MessageWriter writer, T value, MessageHeader? header = null)
    {
        var payload = Encode(value);
        try
        {
            writer.Write(payload.WrittenSpan, HeaderOf<T>(header));
        }
        finally
        {
            Keep(payload);
        }
    }

    /// <summary>Writes a value as one message if the buffer has capacity for it.</summary>
    /// <inheritdoc cref="Write{T}(OutputHandle, T, MessageHeader?)" path="/*[self::typeparam or self::param]"/>
    /// <inheritdoc cref="IOutputBuffer.TryWrite(OutputHandle, ReadOnlySpan{byte}, MessageHeader?)" path="/*[self::returns or self::exception]"/>
    /// <exception cref="NotSupportedException">The codec does not know the type.</exception>
    public bool TryWrite<T>(OutputHandle handle, T value, MessageHeader? header = null)
    {
        var payload = Encode(value);
        try
        {
            return Buffer.TryWrite(handle, payload.WrittenSpan, HeaderOf<T>(header));
        }
        finally
        {
            Keep(payload);
        }
    }

    /// <summary>Writes a value as one message. With <see cref="OverflowPolicy.Wait"/> the task completes when the buffer has accepted it.</summary>
    /// <inheritdoc cref="Write{T}(OutputHandle, T, MessageHeader?)" path="/typeparam"/>
    /// <param name="handle">The destination.</param>
    /// <param name="value">The value.</param>
    /// <param name="header">What the message carries besides its type; null for nothing. See <see cref="Write{T}(OutputHandle, T, MessageHeader?)"/>.</param>
    /// <param name="cancellationToken">Ends the wait for capacity. Cancellation is atomic: the message is either accepted whole or not at all.</param>
    /// <inheritdoc cref="IOutputBuffer.WriteAsync" path="/exception"/>
    /// <exception cref="NotSupportedException">The codec does not know the type. It is in the task.</exception>
    public ValueTask WriteAsync<T>(OutputHandle handle, T value, MessageHeader? header = null, CancellationToken cancellationToken = default)
    {
        MessageHeader typed;
        ArrayBufferWriter<byte> payload;
        try
        {
            typed = HeaderOf<T>(header);
            payload = Encode(value);
        }
        catch (Exception failure)
        {
            return ValueTask.FromException(failure);
        }

        var isWaiting = false;
        try
        {
            var write = Buffer.WriteAsync(handle, payload.WrittenMemory, typed, cancellationToken);
            isWaiting = !write.IsCompleted;
            return write;
        }
        finally
        {
            // A write that waits still reads the memory, so the thread gets other memory for its next value.
            if (!isWaiting)
                Keep(payload);
        }
    }

    /// <summary>Writes a value as the latest one of a key.</summary>
    /// <inheritdoc cref="Write{T}(OutputHandle, T, MessageHeader?)" path="/typeparam"/>
    /// <param name="handle">The destination.</param>
    /// <param name="key">What the value is of; see <see cref="IOutputBuffer.WriteLatest(OutputHandle, long, ReadOnlySpan{byte}, MessageHeader?)"/>.</param>
    /// <param name="value">The value.</param>
    /// <param name="header">What the message carries besides its type; null for nothing. See <see cref="Write{T}(OutputHandle, T, MessageHeader?)"/>.</param>
    /// <inheritdoc cref="IOutputBuffer.WriteLatest(OutputHandle, long, ReadOnlySpan{byte}, MessageHeader?)" path="/exception"/>
    /// <exception cref="NotSupportedException">The codec does not know the type.</exception>
    public void WriteLatest<T>(OutputHandle handle, long key, T value, MessageHeader? header = null)
    {
        var payload = Encode(value);
        try
        {
            Buffer.WriteLatest(handle, key, payload.WrittenSpan, HeaderOf<T>(header));
        }
        finally
        {
            Keep(payload);
        }
    }

    private ArrayBufferWriter<byte> Encode<T>(T value)
    {
        var payload = _kept ?? new ArrayBufferWriter<byte>(FirstBytes);
        _kept = null;
        try
        {
            _codec.Encode(value, payload);
        }
        catch
        {
            Keep(payload);
            throw;
        }

        return payload;
    }

    private static void Keep(ArrayBufferWriter<byte> payload)
    {
        if (payload.Capacity > MaxKeptBytes)
            return;
        payload.ResetWrittenCount();
        _kept = payload;
    }

    private MessageHeader HeaderOf<T>(MessageHeader? header)
    {
        if (header is null)
            return _codec.GetHeader<T>();
        return header.Type is null ? header.WithTypeOf(_codec.GetHeader<T>()) : header;
    }
}

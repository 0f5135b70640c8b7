using System.ComponentModel;
using System.Runtime.CompilerServices;
using System.Text;
using System.Text.Unicode;

namespace BatchKit;

/// <summary>Writes text, interpolated strings and control messages to an <see cref="IOutputBuffer"/>, and opens scopes by name.</summary>
/// <remarks>
/// Text is encoded as UTF-8 in memory that the calling thread keeps, before the buffer takes a lock. No string is created for an interpolated
/// string, and a write that does not wait allocates nothing.
/// </remarks>
public static class OutputBufferExtensions
{
    /// <summary>Holds back the output for a named destination until the scope is disposed.</summary>
    /// <param name="output">The buffer.</param>
    /// <param name="name">The destination's name; see <see cref="OutputHandle.Named"/>.</param>
    /// <param name="maxHold">The longest that a message is held back, above zero and at most one day; null, the default, for no limit.</param>
    /// <param name="openerLine">Filled in by the compiler.</param>
    /// <param name="openerFile">Filled in by the compiler: named in the warning when the scope is never closed.</param>
    /// <exception cref="ArgumentException">The name is empty or too long.</exception>
    /// <exception cref="ArgumentOutOfRangeException">The limit is outside its range.</exception>
    /// <exception cref="ObjectDisposedException">The buffer has stopped.</exception>
    public static BufferingScope BeginBufferingScope(
        this IOutputBuffer output, string name, TimeSpan? maxHold = null, [CallerLineNumber] int openerLine = 0, [CallerFilePath] string openerFile = "")
    {
        ArgumentNullException.ThrowIfNull(output);
        return output.BeginBufferingScope(OutputHandle.Named(name), maxHold, openerLine, openerFile);
    }

    /// <summary>Writes text as one UTF-8 message.</summary>
    /// <param name="output">The buffer.</param>
    /// <param name="handle">The destination.</param>
    /// <param name="text">The message.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    /// <inheritdoc cref="IOutputBuffer.Write(OutputHandle, ReadOnlySpan{byte}, MessageHeader?)" path="/exception"/>
    /// <exception cref="ArgumentNullException">The buffer or the text is null.</exception>
    public static void Write(this IOutputBuffer output, OutputHandle handle, string text, MessageHeader? header = null)
    {
        ArgumentNullException.ThrowIfNull(text);
        output.Write(handle, text.AsSpan(), header);
    }

    /// <inheritdoc cref="Write(IOutputBuffer, OutputHandle, string, MessageHeader?)"/>
    public static void Write(this IOutputBuffer output, OutputHandle handle, ReadOnlySpan<char> text, MessageHeader? header = null)
    {
        var formatted = OutputInterpolatedStringHandler.Encode(text);
        output.Write(handle, ref formatted, header);
    }

    /// <summary>Writes an interpolated string as one UTF-8 message.</summary>
    /// <inheritdoc cref="Write(IOutputBuffer, OutputHandle, string, MessageHeader?)"/>
    public static void Write(
        this IOutputBuffer output, OutputHandle handle, ref OutputInterpolatedStringHandler text, MessageHeader? header = null)
    {
        ArgumentNullException.ThrowIfNull(output);
        try
        {
            output.Write(handle, text.Written.Span, header);
        }
        finally
        {
            text.Release();
        }
    }

    /// <summary>Writes an interpolated string as one UTF-8 message, with its values formatted for a culture.</summary>
    /// <param name="output">The buffer.</param>
    /// <param name="handle">The destination.</param>
    /// <param name="provider">Formats the values, such as <see cref="System.Globalization.CultureInfo.InvariantCulture"/>; the current culture when null.</param>
    /// <param name="text">The message.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    /// <inheritdoc cref="IOutputBuffer.Write(OutputHandle, ReadOnlySpan{byte}, MessageHeader?)" path="/exception"/>
    public static void Write(
        this IOutputBuffer output, OutputHandle handle, IFormatProvider? provider, [InterpolatedStringHandlerArgument(nameof(provider))] ref OutputInterpolatedStringHandler text,
        MessageHeader? header = null) => output.Write(handle, ref text, header);

    /// <summary>Writes a control message. It takes effect after the output that was written before it.</summary>
    /// <param name="output">The buffer.</param>
    /// <param name="handle">The connection that the last hop controls.</param>
    /// <param name="control">What the last hop does.</param>
    /// <inheritdoc cref="IOutputBuffer.Write(OutputHandle, ReadOnlySpan{byte}, MessageHeader?)" path="/exception"/>
    public static void Write(this IOutputBuffer output, OutputHandle handle, ControlMessage control)
    {
        ArgumentNullException.ThrowIfNull(output);
        output.Write(handle, control.ToPayload(), MessageHeader.Control);
    }

    /// <summary>Writes text as one UTF-8 message if the buffer has capacity for it.</summary>
    /// <param name="output">The buffer.</param>
    /// <param name="handle">The destination.</param>
    /// <param name="text">The message.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    /// <inheritdoc cref="IOutputBuffer.TryWrite(OutputHandle, ReadOnlySpan{byte}, MessageHeader?)" path="/*[self::returns or self::exception]"/>
    /// <exception cref="ArgumentNullException">The buffer or the text is null.</exception>
    public static bool TryWrite(this IOutputBuffer output, OutputHandle handle, string text, MessageHeader? header = null)
    {
        ArgumentNullException.ThrowIfNull(text);
        return output.TryWrite(handle, text.AsSpan(), header);
    }

    /// <inheritdoc cref="TryWrite(IOutputBuffer, OutputHandle, string, MessageHeader?)"/>
    public static bool TryWrite(this IOutputBuffer output, OutputHandle handle, ReadOnlySpan<char> text, MessageHeader? header = null)
    {
        var formatted = OutputInterpolatedStringHandler.Encode(text);
        return output.TryWrite(handle, ref formatted, header);
    }

    /// <summary>Writes an interpolated string as one UTF-8 message if the buffer has capacity for it.</summary>
    /// <inheritdoc cref="TryWrite(IOutputBuffer, OutputHandle, ReadOnlySpan{char}, MessageHeader?)"/>
    public static bool TryWrite(
        this IOutputBuffer output, OutputHandle handle, ref OutputInterpolatedStringHandler text, MessageHeader? header = null)
    {
        ArgumentNullException.ThrowIfNull(output);
        try
        {
            return output.TryWrite(handle, text.Written.Span, header);
        }
        finally
        {
            text.Release();
        }
    }

    /// <summary>Writes an interpolated string as one UTF-8 message if the buffer has capacity for it, with its values formatted for a culture.</summary>
    /// <inheritdoc cref="Write(IOutputBuffer, OutputHandle, IFormatProvider, ref OutputInterpolatedStringHandler, MessageHeader?)" path="/param"/>
    /// <inheritdoc cref="TryWrite(IOutputBuffer, OutputHandle, string, MessageHeader?)" path="/*[self::returns or self::exception]"/>
    public static bool TryWrite(
        this IOutputBuffer output, OutputHandle handle, IFormatProvider? provider, [InterpolatedStringHandlerArgument(nameof(provider))] ref OutputInterpolatedStringHandler text,
        MessageHeader? header = null) => output.TryWrite(handle, ref text, header);

    /// <summary>Writes text as one UTF-8 message. With <see cref="OverflowPolicy.Wait"/> the task completes when the buffer has accepted it.</summary>
    /// <param name="output">The buffer.</param>
    /// <param name="handle">The destination.</param>
    /// <param name="text">The message.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    /// <param name="cancellationToken">Ends the wait for capacity. Cancellation is atomic: the message is either accepted whole or not at all.</param>
    /// <inheritdoc cref="IOutputBuffer.WriteAsync" path="/exception"/>
    /// <exception cref="ArgumentNullException">The buffer or the text is null. Unlike all others, this error is thrown by the call.</exception>
    public static ValueTask WriteAsync(
        this IOutputBuffer output, OutputHandle handle, string text, MessageHeader? header = null, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(text);
        var formatted = OutputInterpolatedStringHandler.Encode(text);
        return output.WriteAsync(handle, ref formatted, header, cancellationToken);
    }

    /// <summary>
    /// Writes an interpolated string as one UTF-8 message. With <see cref="OverflowPolicy.Wait"/> the task completes when the buffer has accepted it.
    /// </summary>
    /// <remarks>The values are formatted before the method returns, so they may change afterwards.</remarks>
    /// <inheritdoc cref="WriteAsync(IOutputBuffer, OutputHandle, string, MessageHeader?, CancellationToken)"/>
    public static ValueTask WriteAsync(
        this IOutputBuffer output, OutputHandle handle, ref OutputInterpolatedStringHandler text, MessageHeader? header = null,
        CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(output);
        var isWaiting = false;
        try
        {
            var write = output.WriteAsync(handle, text.Written, header, cancellationToken);
            isWaiting = !write.IsCompleted;
            return write;
        }
        finally
        {
            // A write that waits still reads the memory, so the thread gets other memory for its next text.
            if (!isWaiting)
                text.Release();
        }
    }

    /// <summary>Writes an interpolated string as one UTF-8 message, with its values formatted for a culture. With <see cref="OverflowPolicy.Wait"/> the task completes when the buffer has accepted it.</summary>
    /// <param name="output">The buffer.</param>
    /// <param name="handle">The destination.</param>
    /// <param name="provider">Formats the values; the current culture when null.</param>
    /// <param name="text">The message.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    /// <param name="cancellationToken">Ends the wait for capacity.</param>
    /// <inheritdoc cref="IOutputBuffer.WriteAsync" path="/exception"/>
    public static ValueTask WriteAsync(
        this IOutputBuffer output, OutputHandle handle, IFormatProvider? provider, [InterpolatedStringHandlerArgument(nameof(provider))] ref OutputInterpolatedStringHandler text,
        MessageHeader? header = null, CancellationToken cancellationToken = default) => output.WriteAsync(handle, ref text, header, cancellationToken);
}

/// <summary>Formats an interpolated string as UTF-8 in memory that the thread keeps for it, without creating a string. The compiler uses it.</summary>
[InterpolatedStringHandler]
[EditorBrowsable(EditorBrowsableState.Never)]
public ref struct OutputInterpolatedStringHandler
{
    private const int FirstBytes = 1024;
    private const int GuessedBytesPerHole = 16;

    // Memory of a thread that once wrote a long line is not kept.
    private const int MaxKeptBytes = 64 * 1024;

    // Null while it is in use: a value whose formatting writes an interpolated string itself gets memory of its own.
    [ThreadStatic]
    private static byte[]? _kept;

    private readonly IFormatProvider? _provider;
    private readonly ICustomFormatter? _formatter;
    private byte[] _bytes;
    private int _length;

    /// <summary>Called by the compiler.</summary>
    /// <param name="literalLength">The length of the string's fixed parts in UTF-16 units.</param>
    /// <param name="formattedCount">The number of its values.</param>
    public OutputInterpolatedStringHandler(int literalLength, int formattedCount)
        : this(literalLength, formattedCount, provider: null)
    {
    }

    /// <summary>Called by the compiler.</summary>
    /// <param name="literalLength">The length of the string's fixed parts in UTF-16 units.</param>
    /// <param name="formattedCount">The number of its values.</param>
    /// <param name="provider">Formats the values, by its <see cref="ICustomFormatter"/> when it has one; the current culture when null.</param>
    public OutputInterpolatedStringHandler(int literalLength, int formattedCount, IFormatProvider? provider)
    {
        _provider = provider;
        _formatter = (ICustomFormatter?)provider?.GetFormat(typeof(ICustomFormatter));
        _bytes = _kept ?? new byte[FirstBytes];
        _kept = null;
        EnsureFree(literalLength + (formattedCount * GuessedBytesPerHole));
    }

    internal readonly ReadOnlyMemory<byte> Written => _bytes.AsMemory(0, _length);

    /// <summary>Encodes a text that is already formatted.</summary>
    internal static OutputInterpolatedStringHandler Encode(ReadOnlySpan<char> text)
    {
        var encoded = new OutputInterpolatedStringHandler(text.Length, formattedCount: 0);
        encoded.AppendFormatted(text);
        return encoded;
    }

    /// <summary>Called by the compiler.</summary>
    /// <param name="value">A fixed part.</param>
    public void AppendLiteral(string value) => AppendFormatted(value.AsSpan());

    /// <summary>Called by the compiler.</summary>
    /// <param name="value">Text.</param>
    public void AppendFormatted(string? value)
    {
        if (_formatter is null)
            AppendFormatted(value.AsSpan());
        else
            AppendFormatted<string?>(value, format: null);
    }

    /// <summary>Called by the compiler.</summary>
    /// <param name="value">Text.</param>
    public void AppendFormatted(ReadOnlySpan<char> value)
    {
        int written;
        while (!Encoding.UTF8.TryGetBytes(value, _bytes.AsSpan(_length), out written))
            EnsureFree(Encoding.UTF8.GetByteCount(value));
        _length += written;
    }

    /// <summary>Called by the compiler.</summary>
    /// <param name="utf8">Text in UTF-8.</param>
    public void AppendFormatted(ReadOnlySpan<byte> utf8)
    {
        EnsureFree(utf8.Length);
        utf8.CopyTo(_bytes.AsSpan(_length));
        _length += utf8.Length;
    }

    /// <summary>Called by the compiler.</summary>
    /// <typeparam name="T">The value's type. Formatting one that is <see cref="IUtf8SpanFormattable"/>, such as a number or a time, allocates nothing.</typeparam>
    /// <param name="value">The value.</param>
    public void AppendFormatted<T>(T value) => AppendFormatted(value, format: null);

    /// <summary>Called by the compiler.</summary>
    /// <typeparam name="T">The value's type.</typeparam>
    /// <param name="value">The value.</param>
    /// <param name="format">Its format.</param>
    public void AppendFormatted<T>(T value, string? format)
    {
        if (_formatter is not null)
        {
            AppendFormatted(_formatter.Format(format, value, _provider).AsSpan());
        }
        else if (value is IUtf8SpanFormattable)
        {
            // Tested and used as T, so that a value type is not boxed.
            int written;
            while (!((IUtf8SpanFormattable)value).TryFormat(_bytes.AsSpan(_length), out written, format, _provider))
                EnsureFree(_bytes.Length + 1);
            _length += written;
        }
        else
        {
            AppendFormatted(value is IFormattable formattable ? formattable.ToString(format, _provider) : value?.ToString());
        }
    }

    /// <summary>Called by the compiler.</summary>
    /// <typeparam name="T">The value's type.</typeparam>
    /// <param name="value">The value.</param>
    /// <param name="alignment">The smallest width in UTF-16 units; negative to align to the left.</param>
    /// <param name="format">Its format.</param>
    public void AppendFormatted<T>(T value, int alignment, string? format = null)
    {
        var start = _length;
        AppendFormatted(value, format);
        var units = Encoding.UTF8.GetCharCount(_bytes.AsSpan(start, _length - start));
        var padding = Math.Abs(alignment) - units;
        if (padding <= 0)
            return;
        EnsureFree(padding);
        var bytes = _length - start;
        if (alignment > 0)
            _bytes.AsSpan(start, bytes).CopyTo(_bytes.AsSpan(start + padding));
        _bytes.AsSpan(alignment > 0 ? start : _length, padding).Fill((byte)' ');
        _length += padding;
    }

    /// <summary>Called by the compiler.</summary>
    /// <param name="value">Text.</param>
    /// <param name="alignment">The smallest width in UTF-16 units; negative to align to the left.</param>
    /// <param name="format">Not used.</param>
    public void AppendFormatted(string? value, int alignment = 0, string? format = null) =>
        AppendFormatted<string?>(value, alignment, format);

    /// <summary>Returns the memory to the thread.</summary>
    internal void Release()
    {
        if (_bytes.Length <= MaxKeptBytes)
            _kept = _bytes;
        _bytes = [];
        _length = 0;
    }

    private void EnsureFree(int bytes)
    {
        if (_bytes.Length - _length < bytes)
            Array.Resize(ref _bytes, Math.Max(_bytes.Length * 2, _length + bytes));
    }
}

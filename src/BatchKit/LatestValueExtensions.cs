using System.Runtime.CompilerServices;

namespace BatchKit;

/// <summary>Writes text as the latest value of a key to an <see cref="IOutputBuffer"/>.</summary>
/// <remarks>As those of <see cref="OutputBufferExtensions"/> do, it encodes text as UTF-8 before the buffer takes a lock, and allocates nothing.</remarks>
public static class LatestValueExtensions
{
    /// <summary>Writes text as the latest value of a key.</summary>
    /// <param name="output">The buffer.</param>
    /// <param name="handle">The destination.</param>
    /// <param name="key">What the value is of, among those of this handle: for example an entity's number.</param>
    /// <param name="text">The value.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    /// <inheritdoc cref="IOutputBuffer.WriteLatest(OutputHandle, long, ReadOnlySpan{byte}, MessageHeader?)" path="/*[self::remarks or self::exception]"/>
    /// <exception cref="ArgumentNullException">The buffer or the text is null.</exception>
    public static void WriteLatest(this IOutputBuffer output, OutputHandle handle, long key, string text, MessageHeader? header = null)
    {
        ArgumentNullException.ThrowIfNull(text);
        output.WriteLatest(handle, key, text.AsSpan(), header);
    }

    /// <inheritdoc cref="WriteLatest(IOutputBuffer, OutputHandle, long, string, MessageHeader?)"/>
    public static void WriteLatest(this IOutputBuffer output, OutputHandle handle, long key, ReadOnlySpan<char> text, MessageHeader? header = null)
    {
        var formatted = OutputInterpolatedStringHandler.Encode(text);
        output.WriteLatest(handle, key, ref formatted, header);
    }

    /// <summary>Writes an interpolated string as the latest value of a key.</summary>
    /// <inheritdoc cref="WriteLatest(IOutputBuffer, OutputHandle, long, string, MessageHeader?)"/>
    public static void WriteLatest(this IOutputBuffer output, OutputHandle handle, long key, ref OutputInterpolatedStringHandler text, MessageHeader? header = null)
    {
        ArgumentNullException.ThrowIfNull(output);
        try
        {
            output.WriteLatest(handle, key, text.Written.Span, header);
        }
        finally
        {
            text.Release();
        }
    }

    /// <summary>Writes an interpolated string as the latest value of a key, with its values formatted for a culture.</summary>
    /// <param name="output">The buffer.</param>
    /// <param name="handle">The destination.</param>
    /// <param name="key">What the value is of, among those of this handle: for example an entity's number.</param>
    /// <param name="provider">Formats the values, such as <see cref="System.Globalization.CultureInfo.InvariantCulture"/>; the current culture when null.</param>
    /// <param name="text">The value.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    /// <inheritdoc cref="IOutputBuffer.WriteLatest(OutputHandle, long, ReadOnlySpan{byte}, MessageHeader?)" path="/*[self::remarks or self::exception]"/>
    public static void WriteLatest(
        this IOutputBuffer output, OutputHandle handle, long key, IFormatProvider? provider, [InterpolatedStringHandlerArgument(nameof(provider))] ref OutputInterpolatedStringHandler text,
        MessageHeader? header = null) => output.WriteLatest(handle, key, ref text, header);
}

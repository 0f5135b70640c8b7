using System.Buffers;
using System.Text;

namespace BatchKit;

/// <summary>Writing text, interpolated strings and control messages.</summary>
public static class OutputBufferExtensions
{
    /// <summary>Writes text as UTF-8.</summary>
    /// <param name="output">The buffer.</param>
    /// <param name="handle">The destination.</param>
    /// <param name="text">The message.</param>
    /// <param name="header">What the message says about itself; null for a plain message.</param>
    /// <inheritdoc cref="IOutputBuffer.Write" path="/exception"/>
    public static void Write(this IOutputBuffer output, OutputHandle handle, string text, MessageHeader? header = null) =>
        output.Write(handle, text.AsSpan(), header);

    /// <inheritdoc cref="Write(IOutputBuffer, OutputHandle, string, MessageHeader?)"/>
    public static void Write(this IOutputBuffer output, OutputHandle handle, ReadOnlySpan<char> text, MessageHeader? header = null)
    {
        ArgumentNullException.ThrowIfNull(output);
        var formatted = new OutputInterpolatedStringHandler(text.Length, formattedCount: 0);
        try
        {
            formatted.AppendFormatted(text);
            output.Write(handle, formatted.Written, header);
        }
        finally
        {
            formatted.Release();
        }
    }

    /// <summary>Writes an interpolated string as UTF-8, without making a string. Values are formatted before the buffer's locks are taken.</summary>
    /// <inheritdoc cref="Write(IOutputBuffer, OutputHandle, string, MessageHeader?)"/>
    public static void Write(
        this IOutputBuffer output, OutputHandle handle, ref OutputInterpolatedStringHandler text, MessageHeader? header = null)
    {
        ArgumentNullException.ThrowIfNull(output);
        try
        {
            output.Write(handle, text.Written, header);
        }
        finally
        {
            text.Release();
        }
    }

    /// <summary>Writes a control message, in the order of the output around it.</summary>
    /// <param name="output">The buffer.</param>
    /// <param name="handle">The connection that it is about.</param>
    /// <param name="control">What is asked of the last hop.</param>
    /// <inheritdoc cref="IOutputBuffer.Write" path="/exception"/>
    public static void Write(this IOutputBuffer output, OutputHandle handle, ControlMessage control)
    {
        ArgumentNullException.ThrowIfNull(output);
        output.Write(handle, control.ToPayload(), MessageHeader.Control);
    }

    /// <summary>Writes text as UTF-8 if there is room.</summary>
    /// <param name="output">The buffer.</param>
    /// <param name="handle">The destination.</param>
    /// <param name="text">The message.</param>
    /// <param name="header">What the message says about itself; null for a plain message.</param>
    /// <inheritdoc cref="IOutputBuffer.TryWrite" path="/*[self::returns or self::exception]"/>
    public static bool TryWrite(this IOutputBuffer output, OutputHandle handle, ReadOnlySpan<char> text, MessageHeader? header = null)
    {
        ArgumentNullException.ThrowIfNull(output);
        var formatted = new OutputInterpolatedStringHandler(text.Length, formattedCount: 0);
        try
        {
            formatted.AppendFormatted(text);
            return output.TryWrite(handle, formatted.Written, header);
        }
        finally
        {
            formatted.Release();
        }
    }

    /// <summary>Writes text as UTF-8; with <see cref="OverflowPolicy.Wait"/> it waits for room.</summary>
    /// <param name="output">The buffer.</param>
    /// <param name="handle">The destination.</param>
    /// <param name="text">The message.</param>
    /// <param name="header">What the message says about itself; null for a plain message.</param>
    /// <param name="cancellationToken">Ends the wait for room.</param>
    /// <inheritdoc cref="IOutputBuffer.WriteAsync" path="/exception"/>
    public static async ValueTask WriteAsync(
        this IOutputBuffer output, OutputHandle handle, string text, MessageHeader? header = null, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(output);
        var bytes = ArrayPool<byte>.Shared.Rent(Encoding.UTF8.GetMaxByteCount(text.Length));
        try
        {
            var length = Encoding.UTF8.GetBytes(text, bytes);
            await output.WriteAsync(handle, bytes.AsMemory(0, length), header, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(bytes);
        }
    }
}

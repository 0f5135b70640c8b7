using System.Runtime.CompilerServices;

namespace BatchKit;

/// <summary>Writes text, interpolated strings and control messages to an <see cref="IOutputBuffer"/>, and opens scopes by name.</summary>
/// <remarks>
/// Text becomes UTF-8 in memory that the calling thread keeps, before the buffer's locks are taken. No string is made for an interpolated
/// string, and a write that does not wait allocates nothing.
/// </remarks>
public static class OutputBufferExtensions
{
    /// <summary>Holds back the output for a named destination until the scope is disposed.</summary>
    /// <param name="output">The buffer.</param>
    /// <param name="name">The destination's name; see <see cref="OutputHandle.Named"/>.</param>
    /// <param name="openerFile">Filled in by the compiler: named in the warning when the scope is never closed.</param>
    /// <param name="openerLine">Filled in by the compiler.</param>
    /// <exception cref="ArgumentException">The name is empty or too long.</exception>
    /// <exception cref="ObjectDisposedException">The buffer has stopped.</exception>
    public static BufferingScope BeginBufferingScope(
        this IOutputBuffer output, string name, [CallerFilePath] string openerFile = "", [CallerLineNumber] int openerLine = 0)
    {
        ArgumentNullException.ThrowIfNull(output);
        return output.BeginBufferingScope(OutputHandle.Named(name), openerFile: openerFile, openerLine: openerLine);
    }

    /// <summary>Writes text as one UTF-8 message.</summary>
    /// <param name="output">The buffer.</param>
    /// <param name="handle">The destination.</param>
    /// <param name="text">The message.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    /// <inheritdoc cref="IOutputBuffer.Write" path="/exception"/>
    public static void Write(this IOutputBuffer output, OutputHandle handle, string text, MessageHeader? header = null) =>
        output.Write(handle, text.AsSpan(), header);

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

    /// <summary>Writes a control message. It takes effect after the output that was written before it.</summary>
    /// <param name="output">The buffer.</param>
    /// <param name="handle">The connection that it is about.</param>
    /// <param name="control">What the last hop is told to do.</param>
    /// <inheritdoc cref="IOutputBuffer.Write" path="/exception"/>
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
    /// <inheritdoc cref="IOutputBuffer.TryWrite" path="/*[self::returns or self::exception]"/>
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

    /// <summary>Writes text as one UTF-8 message. With <see cref="OverflowPolicy.Wait"/> the task completes when the buffer has accepted it.</summary>
    /// <param name="output">The buffer.</param>
    /// <param name="handle">The destination.</param>
    /// <param name="text">The message.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    /// <param name="cancellationToken">Ends the wait for capacity. Cancellation is atomic: the message is either accepted whole or not at all.</param>
    /// <inheritdoc cref="IOutputBuffer.WriteAsync" path="/exception"/>
    public static ValueTask WriteAsync(
        this IOutputBuffer output, OutputHandle handle, string text, MessageHeader? header = null, CancellationToken cancellationToken = default)
    {
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
}

using System.Runtime.CompilerServices;

namespace BatchKit;

/// <summary>Writing text, interpolated strings and control messages.</summary>
public static class OutputBufferExtensions
{
    /// <summary>Writes text as UTF-8.</summary>
    public static void Write(this IOutputBuffer output, OutputHandle handle, string text, MessageHeader? header = null) => throw new NotSupportedException();

    /// <summary>Writes a control message.</summary>
    public static void Write(this IOutputBuffer output, OutputHandle handle, ControlMessage control) => throw new NotSupportedException();
}

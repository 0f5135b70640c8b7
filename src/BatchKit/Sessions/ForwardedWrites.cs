using BatchKit.Batches;
using BatchKit.Buffering;

namespace BatchKit.Sessions;

/// <summary>Writes of output that waits in a session, or as a notice, until the buffer has capacity: what is refused is tried again, and is no loss.</summary>
internal static class ForwardedWrites
{
    public static bool TryForward(this IOutputBuffer output, OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header = null)
    {
        if (output is not OutputBuffer buffer)
            return output.TryWrite(handle, payload, header);
        var copied = new CopiedPayload(payload);
        return buffer.TryForward(handle, ref copied, header);
    }

    public static bool TryForward<TState>(this IOutputBuffer output, OutputHandle handle, int maxBytes, TState state, MessageEncoder<TState> encode, MessageHeader? header)
    {
        if (output is not OutputBuffer buffer)
            return output.TryWrite(handle, maxBytes, state, encode, header);
        var encoded = EncodedPayload<TState>.Create(maxBytes, state, encode);
        return buffer.TryForward(handle, ref encoded, header);
    }

    public static bool TryForward(this IOutputBuffer output, OutputHandle handle, ref OutputInterpolatedStringHandler text)
    {
        try
        {
            return output.TryForward(handle, text.Written.Span);
        }
        finally
        {
            text.Release();
        }
    }
}

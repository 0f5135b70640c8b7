namespace BatchKit.Batches;

/// <summary>Knows that this thread encodes a message in place, under its handle's lock. Until the encoder returns, the thread may use no buffer: it would find the batch half written, and two encoders could deadlock.</summary>
internal static class EncoderGuard
{
    [ThreadStatic]
    private static bool _isEncoding;

    public static bool IsEncoding => _isEncoding;

    public static void Begin() => _isEncoding = true;

    public static void End() => _isEncoding = false;

    /// <summary>Refuses a call that an encoder makes. Every way into a buffer that takes a handle's lock, or opens or closes a scope, begins with it.</summary>
    /// <exception cref="InvalidOperationException">An encoder runs on this thread.</exception>
    public static void ThrowIfEncoding()
    {
        if (_isEncoding)
            throw Refusal();
    }

    public static InvalidOperationException Refusal() => new("A message encoder used an output buffer. It may only write to the memory that it is given.");
}

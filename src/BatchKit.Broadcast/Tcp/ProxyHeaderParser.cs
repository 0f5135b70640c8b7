namespace BatchKit.Broadcast.Tcp;

/// <summary>Reads the PROXY protocol's header (HAProxy's proxy-protocol.txt, section 2): a line in version 1, binary in version 2.</summary>
internal static class ProxyHeaderParser
{
    /// <summary>The longest header that is taken. Version 2 could announce 64 KB; addresses and the usual fields need less than 600 bytes.</summary>
    public const int MaxBytes = 4096;

    /// <summary>Looks at the first bytes of a connection.</summary>
    /// <param name="bytes">What came so far.</param>
    /// <param name="header">What it says, when it is complete.</param>
    /// <param name="consumedBytes">How long it is, when it is complete.</param>
    public static ProxyHeaderResult Parse(ReadOnlySpan<byte> bytes, out ProxyHeader header, out int consumedBytes)
    {
        if (StartsLike(bytes, ProxyBinary.Signature))
            return ProxyBinary.Parse(bytes, out header, out consumedBytes);
        if (StartsLike(bytes, ProxyLine.Start))
            return ProxyLine.Parse(bytes, out header, out consumedBytes);
        (header, consumedBytes) = (default, 0);
        return ProxyHeaderResult.Malformed;
    }

    private static bool StartsLike(ReadOnlySpan<byte> bytes, ReadOnlySpan<byte> start)
    {
        var common = Math.Min(bytes.Length, start.Length);
        return bytes[..common].SequenceEqual(start[..common]);
    }
}

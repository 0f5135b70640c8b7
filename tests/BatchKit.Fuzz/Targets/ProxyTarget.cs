using BatchKit.Broadcast.Tcp;

namespace BatchKit.Fuzz.Targets;

/// <summary>The first bytes from a proxy are a header or are not, and are the same header however few arrive at a time.</summary>
internal static class ProxyTarget
{
    public static void Run(byte[] input)
    {
        var whole = ProxyHeaderParser.Parse(input, out var header, out var consumed);
        FuzzTarget.Require(whole != ProxyHeaderResult.Complete || consumed is > 0 and <= ProxyHeaderParser.MaxBytes, "a header has a length within the limit");

        var (early, length, earlyHeader, earlyConsumed) = (ProxyHeaderResult.Incomplete, 0, default(ProxyHeader), 0);
        while (early == ProxyHeaderResult.Incomplete && length < Math.Min(input.Length, ProxyHeaderParser.MaxBytes))
            early = ProxyHeaderParser.Parse(input.AsSpan(0, ++length), out earlyHeader, out earlyConsumed);

        FuzzTarget.Require(early == whole || length == 0, "what came early is what comes at once");
        FuzzTarget.Require(whole != ProxyHeaderResult.Complete || (earlyHeader == header && earlyConsumed == consumed && length == consumed), "a header is complete with its last byte");
    }
}

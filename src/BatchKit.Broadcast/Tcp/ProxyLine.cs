using System.Buffers;
using System.Buffers.Text;
using System.Net;
using System.Net.Sockets;

namespace BatchKit.Broadcast.Tcp;

/// <summary>Version 1 of the PROXY protocol: <c>PROXY TCP4 192.0.2.1 192.0.2.9 56324 443</c> and CR LF (proxy-protocol.txt, section 2.1).</summary>
internal static class ProxyLine
{
    // With the longest addresses and ports.
    private const int MaxBytes = 107;

    private static readonly SearchValues<byte> AddressBytes = SearchValues.Create("0123456789abcdefABCDEF:."u8);

    public static ReadOnlySpan<byte> Start => "PROXY "u8;

    public static ProxyHeaderResult Parse(ReadOnlySpan<byte> bytes, out ProxyHeader header, out int consumedBytes)
    {
        (header, consumedBytes) = (default, 0);
        var end = bytes[..Math.Min(bytes.Length, MaxBytes)].IndexOf("\r\n"u8);
        if (end < 0)
            return bytes.Length < MaxBytes ? ProxyHeaderResult.Incomplete : ProxyHeaderResult.Malformed;
        consumedBytes = end + 2;
        var line = bytes[Start.Length..end];
        if (line.SequenceEqual("UNKNOWN"u8) || line.StartsWith("UNKNOWN "u8))
            return ProxyHeaderResult.Complete;
        return TryParseAddresses(line, out header) ? ProxyHeaderResult.Complete : ProxyHeaderResult.Malformed;
    }

    private static bool TryParseAddresses(ReadOnlySpan<byte> line, out ProxyHeader header)
    {
        const int parts = 5;
        header = default;
        Span<Range> ranges = stackalloc Range[parts + 1];
        if (Split(line, ranges) != parts)
            return false;
        var protocol = line[ranges[0]];
        var family = protocol.SequenceEqual("TCP4"u8) ? AddressFamily.InterNetwork : AddressFamily.InterNetworkV6;
        if (family == AddressFamily.InterNetworkV6 && !protocol.SequenceEqual("TCP6"u8))
            return false;
        if (!TryParseAddress(line[ranges[1]], family, out var source) || !TryParseAddress(line[ranges[2]], family, out _))
            return false;
        if (!TryParsePort(line[ranges[3]], out var port) || !TryParsePort(line[ranges[4]], out _))
            return false;
        header = new ProxyHeader(IsPassedOn: true, new IPEndPoint(source, port), IsSecure: false);
        return true;
    }

    private static int Split(ReadOnlySpan<byte> line, Span<Range> ranges)
    {
        var count = 0;
        foreach (var range in line.Split((byte)' '))
        {
            if (count == ranges.Length)
                break;
            ranges[count++] = range;
        }

        return count;
    }

    // IPAddress also takes "1", "0x7f.1", a scope and brackets.
    private static bool TryParseAddress(ReadOnlySpan<byte> text, AddressFamily family, out IPAddress address)
    {
        address = IPAddress.None;
        if (text.ContainsAnyExcept(AddressBytes) || !IPAddress.TryParse(text, out var parsed) || parsed.AddressFamily != family)
            return false;
        Span<byte> canonical = stackalloc byte[16];
        if (family == AddressFamily.InterNetwork && !(parsed.TryFormat(canonical, out var written) && text.SequenceEqual(canonical[..written])))
            return false;
        address = parsed;
        return true;
    }

    private static bool TryParsePort(ReadOnlySpan<byte> text, out ushort port) =>
        Utf8Parser.TryParse(text, out port, out var consumed) && consumed == text.Length && (text[0] != (byte)'0' || text.Length == 1);
}

using System.Buffers;
using System.Buffers.Binary;
using System.Buffers.Text;
using System.Net;
using System.Net.Sockets;

namespace BatchKit.Broadcast.Tcp;

/// <summary>What a proxy reports about the connection that it forwards.</summary>
/// <param name="IsPassedOn">False for the proxy's own connection, such as a health check, or when the proxy gives no address. The socket's address then counts.</param>
/// <param name="Client">The client's end point; null when it has none, as on a Unix socket.</param>
/// <param name="IsSecure">True when the client uses TLS to the proxy.</param>
internal readonly record struct ProxyHeader(bool IsPassedOn, IPEndPoint? Client, bool IsSecure);

/// <summary>The result of parsing the first bytes from a proxy.</summary>
internal enum ProxyHeaderResult
{
    /// <summary>The bytes may become a header.</summary>
    Incomplete = 0,

    /// <summary>The bytes have a complete header.</summary>
    Complete = 1,

    /// <summary>The bytes are no known header, or one that is too long.</summary>
    Malformed = 2,
}

/// <summary>Reads a PROXY header from a socket, and not a byte more: the bytes after it are the client's, perhaps TLS.</summary>
internal static class ProxyHeaderReader
{
    /// <returns>Null when the header is missing or malformed.</returns>
    public static async Task<ProxyHeader?> ReadAsync(Socket socket, CancellationToken cancellationToken)
    {
        var bytes = new byte[ProxyHeaderParser.MaxBytes];
        var length = 0;
        while (true)
        {
            var seen = await socket.ReceiveAsync(bytes.AsMemory(length), SocketFlags.Peek, cancellationToken).ConfigureAwait(false);
            if (seen == 0)
                return null;
            var result = ProxyHeaderParser.Parse(bytes.AsSpan(0, length + seen), out var header, out var consumed);
            if (result == ProxyHeaderResult.Malformed)
                return null;

            // While the header is incomplete, all bytes so far belong to it.
            var taken = result == ProxyHeaderResult.Complete ? consumed - length : seen;
            await socket.ReceiveAsync(bytes.AsMemory(length, taken), SocketFlags.None, cancellationToken).ConfigureAwait(false);
            if (result == ProxyHeaderResult.Complete)
                return header;
            length += taken;
        }
    }
}

/// <summary>Reads the PROXY protocol's header (HAProxy's proxy-protocol.txt, section 2): a line in version 1, binary in version 2.</summary>
internal static class ProxyHeaderParser
{
    /// <summary>The longest header that is accepted. Version 2 could announce 64 KB; addresses and the usual fields need less than 600 bytes.</summary>
    public const int MaxBytes = 4096;

    /// <summary>Parses the first bytes of a connection.</summary>
    /// <param name="bytes">The bytes so far.</param>
    /// <param name="header">The header, when it is complete.</param>
    /// <param name="consumedBytes">The header's length, when it is complete.</param>
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

/// <summary>Version 1 of the PROXY protocol: <c>PROXY TCP4 192.0.2.1 192.0.2.9 56324 443</c> and CR LF (proxy-protocol.txt, section 2.1).</summary>
internal static class ProxyLine
{
    // The length with the longest addresses and ports.
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

    // IPAddress also accepts "1", "0x7f.1", a scope and brackets.
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

/// <summary>Version 2 of the PROXY protocol (proxy-protocol.txt, section 2.2). Its fields other than TLS are skipped.</summary>
internal static class ProxyBinary
{
    private const int FixedBytes = 16;
    private const byte LocalCommand = 0x20;
    private const byte ProxyCommand = 0x21;
    private const byte SslField = 0x20;
    private const byte ClientUsedSsl = 0x01;
    private const int FieldHeaderBytes = 3;

    public static ReadOnlySpan<byte> Signature => "\r\n\r\n\0\r\nQUIT\n"u8;

    public static ProxyHeaderResult Parse(ReadOnlySpan<byte> bytes, out ProxyHeader header, out int consumedBytes)
    {
        (header, consumedBytes) = (default, 0);
        if (bytes.Length < FixedBytes)
            return ProxyHeaderResult.Incomplete;
        var (command, family) = (bytes[Signature.Length], bytes[Signature.Length + 1]);
        var end = FixedBytes + BinaryPrimitives.ReadUInt16BigEndian(bytes[(Signature.Length + 2)..]);
        if (command is not (LocalCommand or ProxyCommand) || end > ProxyHeaderParser.MaxBytes)
            return ProxyHeaderResult.Malformed;
        if (bytes.Length < end)
            return ProxyHeaderResult.Incomplete;
        consumedBytes = end;
        if (command == LocalCommand)
            return ProxyHeaderResult.Complete;
        return TryParseAddresses(family, bytes[FixedBytes..end], out header) ? ProxyHeaderResult.Complete : ProxyHeaderResult.Malformed;
    }

    private static bool TryParseAddresses(byte family, ReadOnlySpan<byte> body, out ProxyHeader header)
    {
        // The high half is the address family. The low half is stream or datagram, which have the same addresses.
        var addressBytes = family switch
        {
            0x11 or 0x12 => 4,
            0x21 or 0x22 => 16,
            0x31 or 0x32 => 108,
            0x00 => 0,
            _ => -1,
        };
        header = default;
        if (family == 0)
            return true;
        var isUnix = addressBytes == 108;
        var blockBytes = isUnix ? 2 * addressBytes : (2 * addressBytes) + (2 * sizeof(ushort));
        if (addressBytes < 0 || body.Length < blockBytes || !TryParseFields(body[blockBytes..], out var isSecure))
            return false;
        var client = isUnix ? null : new IPEndPoint(new IPAddress(body[..addressBytes]), BinaryPrimitives.ReadUInt16BigEndian(body[(2 * addressBytes)..]));
        header = new ProxyHeader(IsPassedOn: true, client, isSecure);
        return true;
    }

    private static bool TryParseFields(ReadOnlySpan<byte> fields, out bool isSecure)
    {
        isSecure = false;
        while (fields.Length >= FieldHeaderBytes)
        {
            var end = FieldHeaderBytes + BinaryPrimitives.ReadUInt16BigEndian(fields[1..]);
            if (end > fields.Length)
                return false;
            if (fields[0] == SslField && end > FieldHeaderBytes)
                isSecure = (fields[FieldHeaderBytes] & ClientUsedSsl) != 0;
            fields = fields[end..];
        }

        return fields.IsEmpty;
    }
}

using System.Buffers.Binary;
using System.Net;

namespace BatchKit.Broadcast.Tcp;

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
        // The higher half is the address family, the lower one stream or datagram, which both have the same addresses.
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

using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.RegularExpressions;
using BatchKit.Broadcast.Tcp;

namespace BatchKit.Broadcast.Tests.Tcp;

/// <summary>Reads PROXY headers another way than the package does: slowly, with strings.</summary>
internal static partial class ExpectedProxyHeader
{
    private static readonly (ProxyHeaderResult, ProxyHeader, int) Malformed = (ProxyHeaderResult.Malformed, default, 0);
    private static readonly (ProxyHeaderResult, ProxyHeader, int) Incomplete = (ProxyHeaderResult.Incomplete, default, 0);

    public static (ProxyHeaderResult Result, ProxyHeader Header, int Consumed) Of(byte[] bytes) =>
        bytes.Length > 0 && bytes[0] == 13 ? OfBinary(bytes) : OfLine(bytes);

    private static (ProxyHeaderResult Result, ProxyHeader Header, int Consumed) OfLine(byte[] bytes)
    {
        const string start = "PROXY ";
        const int longest = 107;
        var text = Encoding.Latin1.GetString(bytes);
        if (!text.StartsWith(start, StringComparison.Ordinal) && !start.StartsWith(text, StringComparison.Ordinal))
            return Malformed;
        var end = text.IndexOf("\r\n", StringComparison.Ordinal) + 2;
        if (end is < 2 or > longest)
            return text.Length < longest ? Incomplete : Malformed;
        var line = text[..end];
        if (Unknown().IsMatch(line))
            return (ProxyHeaderResult.Complete, default, end);
        var match = Known().Match(line);
        if (!match.Success || !match.Groups["port"].Captures.All(port => int.Parse(port.Value, CultureInfo.InvariantCulture) <= ushort.MaxValue))
            return Malformed;
        var addresses = match.Groups["six"].Success ? match.Groups["six"].Captures : match.Groups["four"].Captures;
        if (!addresses.All(address => IPAddress.TryParse(address.Value, out var parsed)
            && parsed.AddressFamily == (match.Groups["six"].Success ? AddressFamily.InterNetworkV6 : AddressFamily.InterNetwork)))
            return Malformed;
        var client = new IPEndPoint(IPAddress.Parse(addresses[0].Value), int.Parse(match.Groups["port"].Captures[0].Value, CultureInfo.InvariantCulture));
        return (ProxyHeaderResult.Complete, new ProxyHeader(IsPassedOn: true, client, IsSecure: false), end);
    }

    private static (ProxyHeaderResult Result, ProxyHeader Header, int Consumed) OfBinary(byte[] bytes)
    {
        byte[] signature = [13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10];
        for (var index = 0; index < Math.Min(12, bytes.Length); index++)
        {
            if (bytes[index] != signature[index])
                return Malformed;
        }

        if (bytes.Length < 16)
            return Incomplete;
        var end = 16 + (bytes[14] * 256) + bytes[15];
        if (bytes[12] / 16 != 2 || bytes[12] % 16 > 1 || end > 4096)
            return Malformed;
        if (bytes.Length < end)
            return Incomplete;
        if (bytes[12] % 16 == 0 || bytes[13] == 0)
            return (ProxyHeaderResult.Complete, default(ProxyHeader), end);
        var (family, transport) = (bytes[13] / 16, bytes[13] % 16);
        if (family is 0 or > 3 || transport is 0 or > 2)
            return Malformed;
        var fields = 16 + (family == 1 ? 12 : family == 2 ? 36 : 216);
        return fields <= end && TryReadFields(bytes, fields, end, out var isSecure)
            ? (ProxyHeaderResult.Complete, new ProxyHeader(IsPassedOn: true, ReadClient(bytes, family), isSecure), end)
            : Malformed;
    }

    private static IPEndPoint? ReadClient(byte[] bytes, int family)
    {
        if (family == 3)
            return null;
        var length = family == 1 ? 4 : 16;
        var port = 16 + (2 * length);
        return new IPEndPoint(new IPAddress(bytes[16..(16 + length)]), (bytes[port] * 256) + bytes[port + 1]);
    }

    private static bool TryReadFields(byte[] bytes, int place, int end, out bool isSecure)
    {
        isSecure = false;
        while (place + 3 <= end)
        {
            var length = (bytes[place + 1] * 256) + bytes[place + 2];
            if (place + 3 + length > end)
                return false;
            if (bytes[place] == 0x20 && length > 0)
                isSecure = bytes[place + 3] % 2 == 1;
            place += 3 + length;
        }

        return place == end;
    }

    [GeneratedRegex(@"^PROXY UNKNOWN( .*)?\r\n$", RegexOptions.Singleline | RegexOptions.CultureInvariant | RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex Unknown();

    [GeneratedRegex(
        @"^PROXY (TCP4( (?<four>((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(\.(?! )|(?= ))){4})){2}|TCP6( (?<six>[0-9a-fA-F:.]+)){2})( (?<port>0|[1-9][0-9]{0,4})){2}\r\n$",
        RegexOptions.Singleline | RegexOptions.CultureInvariant | RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex Known();
}

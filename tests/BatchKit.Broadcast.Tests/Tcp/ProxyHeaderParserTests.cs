using System.Net;
using System.Text;
using BatchKit.Broadcast.Tcp;

namespace BatchKit.Broadcast.Tests.Tcp;

public sealed class ProxyHeaderParserTests
{
    [Theory]
    [InlineData("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255:65535")]
    [InlineData("PROXY TCP4 192.0.2.1 192.0.2.9 0 443\r\nGET", "192.0.2.1:0")]
    [InlineData("PROXY TCP6 2001:db8::1 ::1 56324 443\r\n", "[2001:db8::1]:56324")]
    [InlineData("PROXY TCP6 ::ffff:192.0.2.1 ::1 56324 443\r\n", "[::ffff:192.0.2.1]:56324")]
    public void A_line_names_its_client(string text, string client)
    {
        Assert.Equal(ProxyHeaderResult.Complete, Parse(text, out var header, out var consumed));

        Assert.Equal(new ProxyHeader(IsPassedOn: true, IPEndPoint.Parse(client), IsSecure: false), header);
        Assert.Equal(text.IndexOf('\n') + 1, consumed);
    }

    [Theory]
    [InlineData("PROXY UNKNOWN\r\n")]
    [InlineData("PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n")]
    public void A_line_may_know_no_client(string text)
    {
        Assert.Equal(ProxyHeaderResult.Complete, Parse(text, out var header, out var consumed));

        Assert.Equal((default, text.Length), (header, consumed));
    }

    [Theory]
    [InlineData("PROXY UNKNOWNS\r\n")]
    [InlineData("PROXY \r\n")]
    [InlineData("PROXY  TCP4 192.0.2.1 192.0.2.9 1 443\r\n")]
    [InlineData("PROXY TCP4 192.0.2.1 192.0.2.9 1 443 \r\n")]
    [InlineData("PROXY TCP4 192.0.2.1 192.0.2.9 1\r\n")]
    [InlineData("PROXY TCP4 192.0.2.1 192.0.2.9  443\r\n")]
    [InlineData("PROXY TCP4 192.0.2.1 192.0.2.9 1 65536\r\n")]
    [InlineData("PROXY TCP4 192.0.2.1 192.0.2.9 01 443\r\n")]
    [InlineData("PROXY TCP4 192.0.2.1 192.0.2.9 +1 443\r\n")]
    [InlineData("PROXY TCP4 192.0.2.01 192.0.2.9 1 443\r\n")]
    [InlineData("PROXY TCP4 3221225985 192.0.2.9 1 443\r\n")]
    [InlineData("PROXY TCP4 ::1 ::1 1 443\r\n")]
    [InlineData("PROXY TCP6 192.0.2.1 192.0.2.9 1 443\r\n")]
    [InlineData("PROXY TCP6 [::1] ::1 1 443\r\n")]
    [InlineData("PROXY TCP6 fe80::1%1 ::1 1 443\r\n")]
    [InlineData("PROXY UDP4 192.0.2.1 192.0.2.9 1 443\r\n")]
    [InlineData("proxy UNKNOWN\r\n")]
    [InlineData("PROXY\tUNKNOWN\r\n")]
    [InlineData("GET / HTTP/1.1\r\n")]
    [InlineData("\n")]
    public void What_is_no_line_is_malformed(string text) => Assert.Equal(ProxyHeaderResult.Malformed, Parse(text, out _, out _));

    [Fact]
    public void A_line_ends_within_107_bytes()
    {
        var longest = "PROXY UNKNOWN " + new string('x', 107 - 16) + "\r\n";

        Assert.Equal(ProxyHeaderResult.Complete, Parse(longest, out _, out _));
        Assert.Equal(ProxyHeaderResult.Incomplete, Parse(longest[..106], out _, out _));
        Assert.Equal(ProxyHeaderResult.Malformed, Parse(longest.Replace("\r\n", "x\r\n", StringComparison.Ordinal), out _, out _));
    }

    [Theory]
    [InlineData("192.0.2.1:1")]
    [InlineData("[2001:db8::1]:65535")]
    public void A_binary_header_names_its_client(string client)
    {
        var bytes = ProxyHeaders.Binary(IPEndPoint.Parse(client));

        Assert.Equal(ProxyHeaderResult.Complete, ProxyHeaderParser.Parse([.. bytes, 1, 2, 3], out var header, out var consumed));

        Assert.Equal(new ProxyHeader(IsPassedOn: true, IPEndPoint.Parse(client), IsSecure: false), header);
        Assert.Equal(bytes.Length, consumed);
    }

    [Theory]
    [InlineData(0x01, true)]
    [InlineData(0x07, true)]
    [InlineData(0x00, false)]
    public void A_binary_header_says_whether_its_client_used_TLS(byte client, bool isSecure)
    {
        var bytes = ProxyHeaders.Binary(IPEndPoint.Parse("192.0.2.1:1"), [4, 0, 1, 0, 0x20, 0, 5, client, 0, 0, 0, 0]);

        Assert.Equal(ProxyHeaderResult.Complete, ProxyHeaderParser.Parse(bytes, out var header, out _));

        Assert.Equal(isSecure, header.IsSecure);
    }

    [Fact]
    public void A_binary_header_may_come_from_a_Unix_socket_or_nowhere()
    {
        Assert.Equal(ProxyHeaderResult.Complete, ProxyHeaderParser.Parse(ProxyHeaders.Binary(0x21, 0x31, new byte[216]), out var unix, out _));
        Assert.Equal(ProxyHeaderResult.Complete, ProxyHeaderParser.Parse(ProxyHeaders.Binary(0x21, 0x00, [1, 2, 3]), out var nowhere, out _));
        Assert.Equal(ProxyHeaderResult.Complete, ProxyHeaderParser.Parse(ProxyHeaders.Binary(0x20, 0x11, [1]), out var local, out _));

        Assert.Equal([new ProxyHeader(IsPassedOn: true, Client: null, IsSecure: false), default, default], [unix, nowhere, local]);
    }

    [Theory]
    [InlineData(0x11, 0x11, 12)]
    [InlineData(0x22, 0x11, 12)]
    [InlineData(0x21, 0x11, 11)]
    [InlineData(0x21, 0x21, 35)]
    [InlineData(0x21, 0x31, 215)]
    [InlineData(0x21, 0x13, 12)]
    [InlineData(0x21, 0x41, 216)]
    [InlineData(0x21, 0x11, 14)]
    [InlineData(0x21, 0x11, 4096)]
    public void What_is_no_binary_header_is_malformed(byte command, byte family, int bodyBytes) =>
        Assert.Equal(ProxyHeaderResult.Malformed, ProxyHeaderParser.Parse(ProxyHeaders.Binary(command, family, new byte[bodyBytes]), out _, out _));

    [Fact]
    public void A_field_beyond_the_end_is_malformed()
    {
        var bytes = ProxyHeaders.Binary(IPEndPoint.Parse("192.0.2.1:1"), [4, 0, 2, 0]);

        Assert.Equal(ProxyHeaderResult.Malformed, ProxyHeaderParser.Parse(bytes, out _, out _));
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    public void Its_start_is_incomplete_at_any_length(int version)
    {
        var bytes = ProxyHeaders.Make(version, IPEndPoint.Parse("192.0.2.1:1"));

        for (var length = 0; length < bytes.Length; length++)
            Assert.Equal(ProxyHeaderResult.Incomplete, ProxyHeaderParser.Parse(bytes.AsSpan(0, length), out _, out _));
    }

    private static ProxyHeaderResult Parse(string text, out ProxyHeader header, out int consumed) =>
        ProxyHeaderParser.Parse(Encoding.ASCII.GetBytes(text), out header, out consumed);
}

using System.Net;
using BatchKit.Broadcast.Tcp;
using BatchKit.Broadcast.Tests.Receiving;

namespace BatchKit.Broadcast.Tests.Tcp;

[Trait("Lane", "slow: many random inputs")]
public sealed class ProxyHeaderMutationTests(ITestOutputHelper output)
{
    private const int Seed = 20_261_122;

    private static readonly byte[][] Lines = [.. new[]
    {
        "PROXY TCP4 192.0.2.1 198.51.100.255 56324 443\r\n",
        "PROXY TCP6 2001:db8::1 ::ffff:192.0.2.9 1 65535\r\n",
        "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n",
        "PROXY UNKNOWN\r\n",
    }.Select(System.Text.Encoding.ASCII.GetBytes)];

    private static readonly byte[][] Binaries =
    [
        ProxyHeaders.Binary(IPEndPoint.Parse("192.0.2.1:56324")),
        ProxyHeaders.Binary(IPEndPoint.Parse("192.0.2.1:56324"), [0x20, 0, 5, 1, 0, 0, 0, 0, 4, 0, 1, 9]),
        ProxyHeaders.Binary(IPEndPoint.Parse("[2001:db8::1]:1"), [4, 0, 0]),
        ProxyHeaders.Binary(0x21, 0x31, new byte[216]),
        ProxyHeaders.Local,
    ];

    private readonly ParserInputs _inputs = new();
    private readonly MutatedInput _input = new(Seed);

    [Fact]
    public void Lines_are_what_a_regular_expression_says() => Compare(Lines, "\r\n 0129.:fTCP46"u8.ToArray());

    [Fact]
    public void Binary_headers_are_what_a_plain_reader_says() =>
        Compare(Binaries, [0, 1, 3, 12, 0x10, 0x11, 0x12, 0x20, 0x21, 0x31, 36, 216, 255]);

    private void Compare(byte[][] valid, byte[] telling)
    {
        var counts = new int[3];
        for (var input = 0; input < ParserInputs.Count; input++)
        {
            _input.Clear();
            _input.Add(valid[_input.Random.Next(valid.Length)]);
            _input.AddRandom(_input.Random.Next(3));
            _input.Spoil(telling);
            var expected = ExpectedProxyHeader.Of(_input.Bytes.ToArray());

            _inputs.Begin();

            var actual = Parse(_input.Cuts());

            _inputs.End(input, Seed);
            if (actual != expected)
                Assert.Fail($"Input {input} of seed {Seed}, {_input.Hex}: {actual} where {expected} was expected.");
            counts[(int)actual.Result]++;
        }

        // Each outcome came often.
        output.WriteLine($"{string.Join(", ", counts)} of each outcome. {_inputs}");
        Assert.All(counts, count => Assert.InRange(count, ParserInputs.Count / 50, ParserInputs.Count));
    }

    private (ProxyHeaderResult Result, ProxyHeader Header, int Consumed) Parse(int[] cuts)
    {
        var bytes = _input.Bytes.Span;
        foreach (var cut in cuts)
        {
            var early = ProxyHeaderParser.Parse(bytes[..cut], out var earlyHeader, out var earlyConsumed);
            if (early != ProxyHeaderResult.Incomplete)
                return (early, earlyHeader, early == ProxyHeaderResult.Complete ? earlyConsumed : 0);
        }

        var result = ProxyHeaderParser.Parse(bytes, out var header, out var consumed);
        return (result, header, result == ProxyHeaderResult.Complete ? consumed : 0);
    }
}

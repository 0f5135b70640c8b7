using System.IO.Compression;
using System.Text;
using BatchKit.Broadcast.Telnet;
using static BatchKit.Broadcast.Tests.Telnet.TelnetScene;

namespace BatchKit.Broadcast.Tests.Telnet;

public sealed class CompressedInputTests(ITestOutputHelper output)
{
    private static readonly byte[] Start = Bytes("FF FA 57 FF F0");
    private static readonly byte[] Nothing = Bytes("78 9C 03 00 00 00 00 01");

    private readonly TelnetScene _scene = new();

    [Fact]
    public void Everything_behind_the_start_is_inflated()
    {
        _scene.Read("FF FD 57");

        Assert.Equal(["plain", "look"], Lines(_scene, [.. Bytes("'plain' 0D 0A"), .. Start, .. Compress("'look' 0D 0A")]));
        Assert.Equal(Bytes("FF FB 57"), _scene.Sent);
    }

    [Fact]
    public void Each_line_can_be_read_when_it_was_sent()
    {
        using var compressed = new MemoryStream();
        using var zlib = new ZLibStream(compressed, CompressionLevel.Optimal);
        _scene.Read([.. Bytes("FF FD 57"), .. Start]);

        for (var line = 1; line <= 100; line++)
        {
            var sent = (int)compressed.Length;
            zlib.Write(Encoding.UTF8.GetBytes($"line {line}\r\n"));
            zlib.Flush();

            Assert.Equal([$"line {line}"], Lines(_scene, compressed.ToArray()[sent..]));
        }
    }

    [Fact]
    public void Every_cut_into_two_reads_and_one_byte_a_read_give_the_same_records()
    {
        byte[] input =
        [
            .. Bytes("FF FD C9 FF FD 57"), .. Start, .. Compress("'say café 🏮' 0D 0A FF FA C9 'Core.Ping' FF F0 'a' 08 'b' 0D 00 'half a '"),
            .. Bytes("'line' 0D 0A"), .. Start, .. Compress("'again' 0D 0A FF"), .. Bytes("F6 'end' 0A"),
        ];
        (RecordKind Kind, string Text)[] expected =
            [(RecordKind.Data, "say café 🏮"), (RecordKind.Gmcp, "Core.Ping"), (RecordKind.Data, "b"), (RecordKind.Data, "half a line"), (RecordKind.Data, "again"), (RecordKind.Data, "end")];

        for (var cut = 0; cut < input.Length; cut++)
            Assert.Equal(expected, new TelnetScene().Read(input, cut));
        Assert.Equal(expected, new TelnetScene().Read(input, Enumerable.Range(0, input.Length)));
    }

    [Fact]
    public void A_stream_with_nothing_in_it_ends_too()
    {
        _scene.Read("FF FD 57");

        Assert.Equal(["plain"], Lines(_scene, [.. Start, .. Nothing, .. Start, .. Nothing, .. Bytes("'plain' 0D 0A")]));
    }

    [Theory]
    [InlineData("'GET / HTTP/1.1' 0D 0A")]
    [InlineData("78 BB 01 02 03 04 05 06")] // needs a dictionary
    [InlineData("78 9C 03 00 00 00 00 02")] // a wrong checksum
    [InlineData("FF FA 57 FF F0")]
    public void What_can_not_be_inflated_is_refused_behind_the_lines_before_it(string garbage)
    {
        _scene.Read("FF FD 57");

        Assert.Equal(["before"], Lines(_scene, [.. Start, .. Compress("'before' 0D 0A"), .. Start, .. Bytes(garbage), .. Bytes("'behind' 0D 0A")]));
        Assert.Equal("compressed input that can't be inflated", _scene.Failure);
    }

    [Theory]
    [InlineData(TelnetFeatures.None, TelnetFeatures.All, "")]
    [InlineData(TelnetFeatures.All, TelnetFeatures.All, "")]
    [InlineData(TelnetFeatures.All, TelnetFeatures.All, "FF FE 57")]
    [InlineData(TelnetFeatures.All, TelnetFeatures.All, "FF FD 57 FF FE 57")]
    [InlineData(TelnetFeatures.All, TelnetFeatures.Compression, "FF FD 57")]
    [InlineData(TelnetFeatures.All, TelnetFeatures.All, "FF FB 57")]
    public void Compressed_input_that_was_not_agreed_is_refused(TelnetFeatures offered, TelnetFeatures supported, string requests)
    {
        var scene = new TelnetScene(new TelnetOptions { Offered = offered, Supported = supported });
        scene.Read(requests);

        Assert.Empty(scene.Read([.. Start, .. Compress("'look' 0D 0A")]));
        Assert.Equal("compressed input that was not agreed", scene.Failure);
    }

    [Fact]
    public void A_start_within_compressed_input_is_ignored()
    {
        _scene.Read([.. Bytes("FF FD 57"), .. Start]);

        Assert.Equal(["one", "two"], Lines(_scene, Compress("'one' 0D 0A FF FA 57 FF F0 'two' 0D 0A")));
        Assert.Null(_scene.Failure);
    }

    [Fact]
    public void A_client_that_begins_again_all_the_time_is_refused()
    {
        _scene.Read("FF FD 57");

        _scene.Read([.. Enumerable.Repeat<byte[]>([.. Start, .. Nothing], 2000).SelectMany(stream => stream)]);

        Assert.Equal("more than 1024 requests in negotiation", _scene.Failure);
    }

    [Fact]
    public void A_line_that_is_inflated_above_the_limit_is_too_long()
    {
        _scene.Read([.. Bytes("FF FD 57"), .. Start]);

        Assert.Equal([(RecordKind.TooLong, ""), (RecordKind.Data, "next")], _scene.Read(Compress($"'{new string('x', 1_000_000)}' 0D 0A 'next' 0D 0A")));
    }

    [Fact]
    public void More_lines_than_are_handed_over_at_once_all_arrive()
    {
        _scene.Read([.. Bytes("FF FD 57"), .. Start]);

        var lines = Lines(_scene, Compress(Encoding.ASCII.GetBytes(string.Concat(Enumerable.Range(0, 50_000).Select(line => $"{line}\n")))));

        Assert.Equal(Enumerable.Range(0, 50_000).Select(line => $"{line}"), lines);
    }

    [Fact]
    public void Broken_streams_are_read_or_refused_and_how_they_are_cut_makes_no_difference()
    {
        var seed = int.TryParse(Environment.GetEnvironmentVariable("BATCHKIT_SEED"), out var given) ? given : Random.Shared.Next();
        output.WriteLine($"BATCHKIT_SEED={seed} repeats this run.");
        var random = new Random(seed);
        var refused = 0;
        for (var round = 0; round < 2000; round++)
        {
            byte[] stream = [.. Start, .. Compress(Encoding.ASCII.GetBytes($"say {random.Next()}\r\nlook\r\n{new string('x', random.Next(300))}\n")), .. "plain\r\n"u8];
            for (var edits = random.Next(4); edits > 0; edits--)
                stream[random.Next(Start.Length, stream.Length)] ^= (byte)(1 << random.Next(8));
            var (whole, cut) = (new TelnetScene(), new TelnetScene());
            byte[] input = [.. Bytes("FF FD 57"), .. stream];

            Assert.Equal(whole.Read(input), cut.Read(input, Enumerable.Range(0, input.Length)));
            Assert.Equal(whole.Failure, cut.Failure);
            refused += whole.Failure is null ? 0 : 1;
        }

        Assert.InRange(refused, 200, 1900);
    }

    private static string[] Lines(TelnetScene scene, byte[] bytes) => [.. scene.Read(bytes).Select(record => record.Text)];
}

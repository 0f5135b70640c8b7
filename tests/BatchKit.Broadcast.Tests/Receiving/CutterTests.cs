using System.Text;
using BatchKit.Broadcast.Receiving;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Receiving;

public sealed class CutterTests
{
    [Theory]
    [InlineData("look\n", "look", 5)]
    [InlineData("look\r\nnorth", "look", 6)]
    [InlineData("\n", "", 1)]
    [InlineData("\r\n", "", 2)]
    [InlineData("\r\r\n", "\r", 3)]
    [InlineData("a\rb\n", "a\rb", 4)]
    [InlineData("12345678\r\n", "12345678", 10)]
    public void A_line_ends_with_LF_and_perhaps_CR_before(string text, string line, int consumed)
    {
        Assert.Equal((CutResult.Record, line, consumed), Cut(LineCutter.Shared, text));
    }

    [Theory]
    [InlineData("look", CutResult.Incomplete)]
    [InlineData("12345678", CutResult.Incomplete)]
    [InlineData("12345678\r", CutResult.Incomplete)]
    [InlineData("123456789", CutResult.TooLong)]
    [InlineData("12345678\r\r", CutResult.TooLong)]
    [InlineData("123456789\n", CutResult.TooLong)]
    [InlineData("123456789\r\n", CutResult.TooLong)]
    public void A_line_without_an_end_waits_as_long_as_it_may_still_fit(string text, CutResult result)
    {
        Assert.Equal((result, "", 0), Cut(LineCutter.Shared, text));
    }

    [Theory]
    [InlineData("\0\0\0\u0002hi", "hi", 6)]
    [InlineData("\0\0\0\u0002hi, there", "hi", 6)]
    [InlineData("\0\0\0\0", "", 4)]
    [InlineData("\0\0\0\u000812345678", "12345678", 12)]
    public void A_record_follows_its_length(string text, string record, int consumed)
    {
        Assert.Equal((CutResult.Record, record, consumed), Cut(LengthPrefixCutter.Shared, text));
    }

    [Theory]
    [InlineData("\0", CutResult.Incomplete)]
    [InlineData("\0\0\0", CutResult.Incomplete)]
    [InlineData("\0\0\0\u0002h", CutResult.Incomplete)]
    [InlineData("\0\0\0\u0009", CutResult.TooLong)]
    [InlineData("\0\u0001\0\0", CutResult.TooLong)]
    [InlineData("\u007f\u007f\u007f\u007f", CutResult.TooLong)]
    public void A_length_is_looked_at_as_soon_as_it_is_there(string text, CutResult result)
    {
        Assert.Equal((result, "", 0), Cut(LengthPrefixCutter.Shared, text));
    }

    [Theory]
    [InlineData("\u0002\0\0\0hi", CutResult.Record, "hi", 6)]
    [InlineData("\0\0\0\0", CutResult.Record, "", 4)]
    [InlineData("\u0008\0\0\012345678", CutResult.Record, "12345678", 12)]
    [InlineData("\u0002\0\0", CutResult.Incomplete, "", 0)]
    [InlineData("\u0002\0\0\0h", CutResult.Incomplete, "", 0)]
    [InlineData("\u0009\0\0\0", CutResult.TooLong, "", 0)]
    [InlineData("\0\0\0\u007f", CutResult.TooLong, "", 0)]
    public void A_little_endian_length_has_its_lowest_byte_first(string text, CutResult result, string record, int consumed)
    {
        Assert.Equal((result, record, consumed), Cut(LengthPrefixCutter.LittleEndian, text));
    }

    [Theory]
    [InlineData("02 68 69", CutResult.Record, 1, 3)]
    [InlineData("00", CutResult.Record, 1, 1)]
    [InlineData("82 00 68 69 6A", CutResult.Record, 2, 4)]
    [InlineData("82 80 80 80 00 68 69", CutResult.Record, 5, 7)]
    [InlineData("82", CutResult.Incomplete, 0, 0)]
    [InlineData("02 68", CutResult.Incomplete, 0, 0)]
    [InlineData("09", CutResult.TooLong, 0, 0)]
    [InlineData("FF FF FF FF 0F", CutResult.TooLong, 0, 0)]
    [InlineData("FF FF FF FF 1F", CutResult.Malformed, 0, 0)]
    [InlineData("80 80 80 80 80", CutResult.Malformed, 0, 0)]
    public void A_varint_length_has_seven_bits_in_each_byte(string bytes, CutResult result, int start, int consumed)
    {
        var input = Convert.FromHexString(bytes.Replace(" ", "", StringComparison.Ordinal));

        var found = LengthPrefixCutter.Varint.Cut(input, maxRecordBytes: 8, out var record, out var taken);

        Assert.Equal((result, result == CutResult.Record ? start..consumed : default, consumed), (found, record, taken));
    }

    [Fact]
    public void A_length_beyond_every_array_is_refused_before_memory_is_taken_for_it()
    {
        var run = new InboundRun(new BroadcastOptions { MaxRecordBytes = 1 << 20 }, LengthPrefixCutter.Shared);
        run.Source.Start((byte[])[0xff, 0xff, 0xff, 0xff, 1, 2, 3], 4);

        Assert.Equal(InboundEnd.ProtocolError, run.Run());

        Assert.Equal((0, 64 * 1024), (run.Collector.Count, run.Source.MostRoom));
    }

    [Fact]
    public void A_cutter_that_consumes_nothing_is_named()
    {
        var reader = new CutRecordReader(new IdleCutter(), maxRecordBytes: 100);

        var failure = Assert.Throws<InvalidOperationException>(() => reader.TryRead(new byte[10], [], out _));

        Assert.Contains(nameof(IdleCutter), failure.Message);
    }

    private static (CutResult Result, string Record, int Consumed) Cut(IRecordCutter cutter, string text)
    {
        const int maxRecordBytes = 8;
        var bytes = Some.Bytes(text);
        var result = cutter.Cut(bytes, maxRecordBytes, out var record, out var consumed);
        return result == CutResult.Record ? (result, Encoding.UTF8.GetString(bytes[record]), consumed) : (result, "", 0);
    }
}

using System.Text;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Telnet;
using BatchKit.Testing;
using BatchKit.Transports;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Broadcast.Tests.Telnet;

public sealed class TelnetEncoderTests
{
    private static readonly MessageHeader Prompt = new() { Kind = MessageKind.Prompt };

    [Theory]
    [InlineData(TelnetCharset.Utf8, "'café €' 0D 0A", "'café €' 0D 0A")]
    [InlineData(TelnetCharset.Utf8, "'a' FF 'b' FF FF", "'a' FF FF 'b' FF FF FF FF")]
    [InlineData(TelnetCharset.Latin1, "'café €ÿ' 80 '!'", "'caf' E9 ' ?' FF FF '?!'")]
    [InlineData(TelnetCharset.Latin1, "C3", "'?'")]
    [InlineData(TelnetCharset.Ascii, "'café €🏮!'", "'caf? ??!'")]
    [InlineData(TelnetCharset.Ascii, "'plain'", "'plain'")]
    [InlineData(TelnetCharset.Latin1, "", "")]
    public void Text_is_written_in_the_clients_charset_and_IAC_is_doubled(TelnetCharset charset, string payload, string expected)
    {
        var message = new BatchMessage(TelnetScene.Bytes(payload));

        Assert.Equal(TelnetScene.Bytes(expected), Encode(WireFormat.Telnet(charset, PromptEnding.GoAhead, takesGmcp: true), message));
    }

    [Theory]
    [InlineData(PromptEnding.None, "'> '")]
    [InlineData(PromptEnding.GoAhead, "'> ' FF F9")]
    [InlineData(PromptEnding.EndOfRecord, "'> ' FF EF")]
    public void A_prompt_ends_as_was_agreed(object ending, string expected) =>
        Assert.Equal(
            TelnetScene.Bytes(expected),
            Encode(WireFormat.Telnet(TelnetCharset.Utf8, (PromptEnding)ending, takesGmcp: false), Some.Message("> ", Prompt)));

    [Theory]
    [InlineData("", "FF F9")]
    [InlineData("FF FD 03", "")]
    [InlineData("FF FD 03 FF FD 19", "FF EF")]
    [InlineData("FF FD 19 FF FE 19", "FF F9")]
    public void What_is_agreed_decides_how_a_prompt_ends(string requests, string ending)
    {
        var scene = new TelnetScene();

        scene.Read(requests);

        Assert.Equal(TelnetScene.Bytes($"'> ' {ending}"), Encode(scene.Connection.Format, Some.Message("> ", Prompt)));
    }

    [Fact]
    public void A_server_that_sends_no_go_ahead_ends_a_prompt_with_nothing()
    {
        var options = TelnetScene.Silent;
        options.SendsGoAhead = false;

        Assert.Equal(TelnetScene.Bytes("'> '"), Encode(new TelnetScene(options).Connection.Format, Some.Message("> ", Prompt)));
    }

    [Fact]
    public void GMCP_is_framed_for_those_who_agreed_on_it_and_skipped_for_others()
    {
        var message = new BatchMessage(TelnetScene.Bytes("'Char.Vitals {\"hp\":\"é' FF '\"}'"), TelnetMessages.Gmcp);

        Assert.Equal(
            TelnetScene.Bytes("FF FA C9 'Char.Vitals {\"hp\":\"é' FF FF '\"}' FF F0"),
            Encode(WireFormat.Telnet(TelnetCharset.Latin1, PromptEnding.None, takesGmcp: true), message));
        Assert.Null(Encode(WireFormat.Telnet(TelnetCharset.Latin1, PromptEnding.None, takesGmcp: false), message));
    }

    [Fact]
    public void No_message_takes_more_than_the_bound_and_no_other_charset_is_needed_for_plain_ones()
    {
        var formats = Enumerable.Range(WireFormat.Telnet(default, default, takesGmcp: false).Index, WireFormat.Count - 3).Select(index => WireFormat.FromIndex((byte)index)).ToArray();
        var bytes = Gen.OneOf(Gen.Choose(250, 255), Gen.Choose(0, 255), Gen.Constant(0xC3), Gen.Constant(0xBF)).Select(value => (byte)value).ArrayOf();
        var header = Gen.Elements(null, Prompt, TelnetMessages.Gmcp);
        var cases = Gen.Elements(formats).Zip(bytes.Zip(header)).ToArbitrary();

        Check.One(Config.QuickThrowOnFailure.WithMaxTest(20_000), Prop.ForAll(cases, input =>
        {
            var (format, (payload, messageHeader)) = input;
            var encoded = Encode(format, new BatchMessage(payload, messageHeader));
            var isWithin = encoded is null || encoded.Length <= TelnetEncoder.GetMaxBytes(payload);
            var isPlain = messageHeader is not null || !TelnetEncoder.IsPlain(format, payload) || payload.AsSpan().SequenceEqual(encoded);
            return isWithin && isPlain;
        }));
    }

    [Theory]
    [InlineData(TelnetCharset.Utf8, "say \"café €🏮\" (all)")]
    [InlineData(TelnetCharset.Latin1, "say \"café ÿÿ©\" (all)")]
    [InlineData(TelnetCharset.Ascii, "say \"hi\" (all)")]
    public void What_is_encoded_reads_back_the_same(TelnetCharset charset, string line)
    {
        var options = TelnetScene.Silent;
        options.InitialCharset = charset;
        var scene = new TelnetScene(options);
        scene.Read("FF FD C9");

        var encoded = Encode(scene.Connection.Format, Some.Message($"{line}\r\n"))!;
        var gmcp = Encode(scene.Connection.Format, Some.Message("Room {\"é\":1}", TelnetMessages.Gmcp))!;

        Assert.Equal([(RecordKind.Data, line), (RecordKind.Gmcp, "Room {\"é\":1}"), (RecordKind.Data, line)], scene.Read([.. encoded, .. gmcp, .. encoded]));
    }

    [Fact]
    public void Any_text_reads_back_the_same_in_UTF8()
    {
        var scene = new TelnetScene(maxRecordBytes: 1 << 16);
        var texts = ArbMap.Default.ArbFor<string>().Filter(text => text is not null && !text.EnumerateRunes().Any(Rune.IsControl));

        Check.One(Config.QuickThrowOnFailure.WithMaxTest(2000), Prop.ForAll(texts, text =>
        {
            var wellFormed = Encoding.UTF8.GetString(Encoding.UTF8.GetBytes(text));
            return scene.Read(Encode(scene.Connection.Format, Some.Message($"{wellFormed}\r\n"))!).SequenceEqual([(RecordKind.Data, wellFormed)]);
        }));
    }

    private static byte[]? Encode(WireFormat format, BatchMessage message)
    {
        var destination = new byte[TelnetEncoder.GetMaxBytes(message.Payload.Span)];
        return MessageEncoder.TryEncode(format, message, destination, out var written) ? destination[..written] : null;
    }
}

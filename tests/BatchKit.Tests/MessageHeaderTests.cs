using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests;

public sealed class MessageHeaderTests
{
    private static readonly string TooLong = new('€', (MessageHeader.MaxTextBytes / 3) + 1);

    public static TheoryData<MessageHeader> HeadersThatNoFrameTakes =>
    [
        new MessageHeader { Key = TooLong },
        new MessageHeader { ContentType = TooLong },
        new MessageHeader { Properties = [new(TooLong, "")] },
        new MessageHeader { Properties = [new("", TooLong)] },
        new MessageHeader { Properties = [new(null!, "value")] },
        new MessageHeader { Properties = [new("name", null!)] },
        new MessageHeader { Properties = [new("name", "value"), default] },
        new MessageHeader { ReplyTo = TooLong },
        new MessageHeader { CorrelationData = [.. new byte[MessageHeader.MaxTextBytes + 1]] },
        new MessageHeader { Kind = (MessageKind)3 },
        new MessageHeader { TimeToLive = TimeSpan.Zero },
    ];

    [Theory]
    [MemberData(nameof(HeadersThatNoFrameTakes))]
    public async Task A_header_that_no_frame_takes_is_refused_at_the_write(MessageHeader header)
    {
        await using var buffer = new OutputBuffer(new CollectingTransport());

        Assert.Equal("header", Assert.Throws<ArgumentException>(() => buffer.Write(Some.Connection(), "x"u8, header)).ParamName);
    }

    [Fact]
    public void The_longest_texts_cross_in_a_frame()
    {
        var longest = new string('€', MessageHeader.MaxTextBytes / 3);
        var header = new MessageHeader { Key = longest, Properties = [new(longest, longest)] };

        using var received = FrameReader.Read(Some.Frame(MessageBatch.Create(Some.Connection(), Some.Producer(), 1, Some.Message("x", header))));

        Assert.Equivalent(header, received.Batches.Span[0].Headers[0], strict: true);
    }
}

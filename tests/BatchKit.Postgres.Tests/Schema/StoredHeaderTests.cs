using System.Collections.Immutable;
using BatchKit.Postgres.Schema;
using BatchKit.Transports;

namespace BatchKit.Postgres.Tests.Schema;

/// <summary>A header comes back from a row as it went in.</summary>
public sealed class StoredHeaderTests
{
    [Fact]
    public void All_of_a_header_comes_back()
    {
        var header = new MessageHeader
        {
            Kind = MessageKind.Prompt,
            Key = "player 7",
            ContentType = "text/plain",
            ExcludedConnections = [OutputHandle.Connection(3, 9)],
            Properties = ImmutableArray.Create(new KeyValuePair<string, string>("a", "1"), new KeyValuePair<string, string>("", "\u00e4")),
        };

        var read = StoredHeader.Read(StoredHeader.Write(header));

        Assert.NotNull(read);
        Assert.Equal((header.Kind, header.Key, header.ContentType), (read.Kind, read.Key, read.ContentType));
        Assert.Equal(header.ExcludedConnections, read.ExcludedConnections);
        Assert.Equal(header.Properties, read.Properties);
    }

    [Fact]
    public void Bytes_that_are_no_header_are_refused() => Assert.Throws<FrameFormatException>(() => StoredHeader.Read(new ReadOnlyMemory<byte>([1, 2, 3])));
}

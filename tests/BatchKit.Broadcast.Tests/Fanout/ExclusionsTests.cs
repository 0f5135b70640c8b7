using BatchKit.Broadcast.Fanout;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Fanout;

public sealed class ExclusionsTests
{
    private readonly Exclusions _exclusions = new();

    [Fact]
    public void Without_headers_nobody_is_excluded()
    {
        _exclusions.Read([null, null]);

        Assert.False(_exclusions.Contains(Some.Connection()));
        Assert.False(_exclusions.Contains(1, Some.Connection()));
    }

    [Fact]
    public void A_header_without_connections_excludes_nobody()
    {
        _exclusions.Read([MessageHeader.Prompt, new MessageHeader { ExcludedConnections = default }]);

        Assert.False(_exclusions.Contains(Some.Connection()));
        Assert.False(_exclusions.Contains(1, Some.Connection()));
    }

    [Theory]
    [InlineData(1)]
    [InlineData(8)]
    [InlineData(9)]
    [InlineData(1000)]
    public void Those_that_a_message_names_are_excluded_from_it_alone(int count)
    {
        var (excluded, other) = (Enumerable.Range(0, count).Select(_ => Some.Connection()).ToArray(), Some.Connection());
        var header = new MessageHeader { ExcludedConnections = [.. excluded] };

        _exclusions.Read([null, header, header, MessageHeader.Prompt]);

        Assert.All(excluded, connection => Assert.True(_exclusions.Contains(connection)));
        Assert.All(excluded, connection => Assert.Equal(
            [false, true, true, false], Enumerable.Range(0, 4).Select(message => _exclusions.Contains(message, connection))));
        Assert.False(_exclusions.Contains(other));
        Assert.False(_exclusions.Contains(1, other));
    }

    [Fact]
    public void Messages_of_one_batch_exclude_different_ones()
    {
        var connections = Enumerable.Range(0, 12).Select(_ => Some.Connection()).ToArray();

        _exclusions.Read([.. connections.Select(connection => new MessageHeader { ExcludedConnections = [connection] })]);

        for (var message = 0; message < 12; message++)
            Assert.Equal([connections[message]], connections.Where(connection => _exclusions.Contains(message, connection)));
    }

    [Fact]
    public void What_was_read_is_forgotten_when_cleared()
    {
        var excluded = Some.Connection();
        _exclusions.Read([new MessageHeader { ExcludedConnections = [excluded] }]);

        _exclusions.Clear();
        _exclusions.Read([null]);

        Assert.False(_exclusions.Contains(excluded));
        Assert.False(_exclusions.Contains(0, excluded));
    }
}

using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Transport;

public sealed class ExclusionTests : IAsyncDisposable
{
    private readonly BroadcastTransport _transport = new();
    private readonly FakeClient[] _clients;

    public ExclusionTests() => _clients = [.. Enumerable.Range(0, 30).Select(place => MakeClient(place).Join("hall"))];

    public ValueTask DisposeAsync() => _transport.DisposeAsync();

    [Theory]
    [InlineData(1)]
    [InlineData(8)]
    [InlineData(9)]
    [InlineData(30)]
    public async Task Who_is_excluded_from_a_message_gets_the_others_only(int excluded)
    {
        var handles = _clients[..excluded].Select(client => client.Handle).ToArray();

        await _transport.SendAsync(Deliveries.ToGroup("hall", Some.Message("one"), Deliveries.Excluding("two", handles), Some.Message("three")));

        Assert.All(_clients[..excluded], client => Assert.Equal(Expected(client, "one", "three"), client.Text));
        Assert.All(_clients[excluded..], client => Assert.Equal(Expected(client, "one", "two", "three"), client.Text));
        Assert.All(_clients, client => Assert.Equal(1, client.Wire.Writes));
        Assert.Equal((3 * 30) - excluded, _transport.GetStatistics().SentMessages);
        _transport.GetStatistics().AssertAddsUp();
    }

    [Fact]
    public async Task Who_is_excluded_from_every_message_gets_no_write()
    {
        await _transport.SendAsync(Deliveries.ToGroup("hall", Deliveries.Excluding("one", _clients[3].Handle), Deliveries.Excluding("two", _clients[3].Handle)));

        Assert.Equal((0, ""), (_clients[3].Wire.Writes, _clients[3].Text));
        Assert.Equal(2 * 29, _transport.GetStatistics().SentMessages);
    }

    [Fact]
    public async Task Each_message_excludes_its_own()
    {
        var messages = Enumerable.Range(0, 30).Select(place => Deliveries.Excluding($"{place:D2}", _clients[place].Handle, _clients[(place + 1) % 30].Handle)).ToArray();

        await _transport.SendAsync(Deliveries.ToGroup("hall", messages));

        for (var place = 0; place < 30; place++)
        {
            var lines = Enumerable.Range(0, 30).Where(line => line != place && (line + 1) % 30 != place).Select(line => $"{line:D2}").ToArray();
            Assert.Equal(Expected(_clients[place], lines), _clients[place].Text);
        }
    }

    [Fact]
    public async Task To_exclude_one_that_has_left_or_lives_elsewhere_excludes_nobody()
    {
        _clients[5].Leave();

        await _transport.SendAsync(Deliveries.ToGroup("hall", Deliveries.Excluding("hello", _clients[5].Handle, Some.Connection(node: 77))));

        Assert.All(_clients.Except([_clients[5]]), client => Assert.Equal(Expected(client, "hello"), client.Text));
        Assert.Equal("", _clients[5].Text);
    }

    [Fact]
    public async Task An_exclusion_is_forgotten_in_the_next_send()
    {
        await _transport.SendAsync(Deliveries.ToGroup("hall", Deliveries.Excluding("one", [.. _clients.Select(client => client.Handle)])));
        await _transport.SendAsync(Deliveries.ToGroup("hall", Some.Message("two", new MessageHeader { Key = "no exclusions" })));

        Assert.All(_clients, client => Assert.Equal(Expected(client, "two"), client.Text));
    }

    [Fact]
    public async Task Exclusion_holds_in_one_group_of_a_send_and_not_in_the_other()
    {
        _clients[0].Join("guild");

        await _transport.SendAsync(Deliveries.ToGroup("hall", Deliveries.Excluding("hall ", _clients[0].Handle)), Deliveries.ToGroup("guild", "guild"));

        Assert.Equal(Expected(_clients[0], "guild"), _clients[0].Text);
        Assert.Equal(Expected(_clients[1], "hall "), _clients[1].Text);
    }

    // Every third is a WebSocket client, so that exclusion meets more than one wire format.
    private FakeClient MakeClient(int place) =>
        place % 3 == 2 ? new FakeClient(_transport, ClientProtocol.WebSocket, WireFormat.WebSocketText) : new FakeClient(_transport);

    private static string Expected(FakeClient client, params string[] texts) =>
        client.Connection.Protocol == ClientProtocol.Tcp ? string.Concat(texts) : string.Concat(texts.Select(text => $"\uFFFD{(char)text.Length}{text}"));
}

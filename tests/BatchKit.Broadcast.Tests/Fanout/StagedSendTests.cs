using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Fanout;

public sealed class StagedSendTests : IAsyncDisposable
{
    private readonly BroadcastTransport _transport = new();
    private readonly StagedSend _staged;

    public StagedSendTests() => _staged = new StagedSend(_transport.Limits);

    public ValueTask DisposeAsync() => _transport.DisposeAsync();

    [Fact]
    public void Connections_are_staged_once_each_in_the_order_of_their_first_batch()
    {
        var (first, second) = (new FakeClient(_transport), new FakeClient(_transport));

        _staged.Stage(Deliveries.ToGroup("hall", "1"), [first.Connection, second.Connection]);
        _staged.Stage(Deliveries.To(second.Handle, "2"), second.Connection, messages: 1, closes: false);
        _staged.Stage(Deliveries.ToGroup("hall", "3"), [second.Connection, first.Connection]);
        Send(..);

        Assert.Equal(2, _staged.Count);
        Assert.Equal(("13", 1), (first.Text, first.Wire.Writes));
        Assert.Equal(("123", 1), (second.Text, second.Wire.Writes));
    }

    [Fact]
    public void Only_the_messages_before_the_given_place_are_sent()
    {
        var client = new FakeClient(_transport);

        _staged.Stage(Deliveries.To(client.Handle, "1", "2", "3"), client.Connection, messages: 2, closes: false);
        Send(..);

        Assert.Equal("12", client.Text);
    }

    [Fact]
    public void A_connection_is_closed_behind_what_it_gets()
    {
        var client = new FakeClient(_transport);
        _staged.Stage(Deliveries.To(client.Handle, "last"), client.Connection, messages: 1, closes: true);
        var isClosedEarly = client.Connection.Closing.IsCompleted;

        Send(..);

        Assert.True(_staged.IsClosed(client.Connection));
        Assert.False(isClosedEarly);
        Assert.Equal(("last", true), (client.Text, client.Wire.IsFinished));
    }

    [Fact]
    public void Ranges_cover_every_member_once()
    {
        var clients = Enumerable.Range(0, 10).Select(_ => new FakeClient(_transport)).ToArray();
        _staged.StageOnly(Deliveries.ToGroup("hall", "hello"), Array.ConvertAll(clients, client => client.Connection));

        Send(7..10);
        Send(0..7);

        Assert.Equal(10, _staged.Count);
        Assert.All(clients, client => Assert.Equal("hello", client.Text));
    }

    [Fact]
    public void After_clear_it_stages_another_send()
    {
        var (first, second) = (new FakeClient(_transport), new FakeClient(_transport));
        _staged.StageOnly(Deliveries.ToGroup("hall", "one"), [first.Connection]);
        Send(..);

        _staged.Clear();
        _staged.Stage(Deliveries.ToGroup("hall", Deliveries.Excluding("two", first.Handle), Some.Message("three")), [first.Connection, second.Connection]);
        Send(..);

        Assert.Equal(("onethree", "twothree"), (first.Text, second.Text));
    }

    private void Send(Range range)
    {
        var tally = default(DeliveryTally);
        _staged.Send(range, new OutputComposer(_transport.Limits), ref tally);
    }
}

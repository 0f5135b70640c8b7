using System.Collections.Immutable;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Tests.Transport;

public sealed class BroadcastTransportTests : IAsyncDisposable
{
    private readonly BroadcastTransport _transport = new();

    public ValueTask DisposeAsync() => _transport.DisposeAsync();

    [Fact]
    public async Task Ten_messages_of_one_scope_are_one_write_for_each_member()
    {
        var clients = Enumerable.Range(0, 20).Select(_ => new FakeClient(_transport).Join("hall")).ToArray();

        await _transport.SendAsync(Deliveries.ToGroup("hall", Some.Lines(10)));

        Assert.All(clients, client => Assert.Equal((1, string.Concat(Some.Lines(10))), (client.Wire.Writes, client.Text)));
    }

    [Fact]
    public async Task A_client_in_several_groups_of_one_send_gets_one_write_in_order()
    {
        var client = new FakeClient(_transport).Join("hall", "guild", "party");
        var bystander = new FakeClient(_transport).Join("guild");

        await _transport.SendAsync(
            Deliveries.ToGroup("hall", "1"), Deliveries.ToGroup("guild", "2"), Deliveries.To(client.Handle, "3"),
            Deliveries.ToGroup("party", "4"), Deliveries.ToGroup("hall", "5"));

        Assert.Equal((1, "12345"), (client.Wire.Writes, client.Text));
        Assert.Equal((1, "2"), (bystander.Wire.Writes, bystander.Text));
    }

    [Fact]
    public async Task A_send_to_many_clients_completes_when_all_have_it()
    {
        var clients = Enumerable.Range(0, 1000).Select(_ => new FakeClient(_transport).Join("hall")).ToArray();

        await _transport.SendAsync(Deliveries.ToGroup("hall", "one"));
        await _transport.SendAsync(Deliveries.ToGroup("hall", "two"), Deliveries.ToGroup("hall", "three"));

        Assert.All(clients, client => Assert.Equal((2, "onetwothree"), (client.Wire.Writes, client.Text)));
    }

    [Fact]
    public async Task A_batch_for_a_connection_that_is_gone_is_refused_and_its_neighbours_arrive()
    {
        var (gone, here) = (new FakeClient(_transport), new FakeClient(_transport));
        gone.Leave();

        var exception = await Assert.ThrowsAsync<BatchSendException>(
            () => _transport.SendAsync(Deliveries.To(here.Handle, "a"), Deliveries.To(gone.Handle, "lost"), Deliveries.To(here.Handle, "b")));

        ImmutableArray<BatchOutcome> expected = [BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged];
        Assert.Equal(expected, exception.Outcomes);
        Assert.Equal("ab", here.Text);
    }

    [Fact]
    public async Task A_batch_for_a_group_without_members_is_acknowledged()
    {
        await _transport.SendAsync(Deliveries.ToGroup("nobody", "hello"));
        await _transport.SendAsync(Deliveries.ToGroup("nobody", "hello"), Deliveries.ToGroup("no one", "hello"));

        Assert.Equal(0, _transport.GetStatistics().AcceptedMessages);
    }

    [Fact]
    public async Task One_message_is_encoded_for_each_kind_of_client()
    {
        var raw = new FakeClient(_transport).Join("hall");
        var text = new FakeClient(_transport, ClientProtocol.WebSocket, WireFormat.WebSocketText).Join("hall");
        var binary = new FakeClient(_transport, ClientProtocol.WebSocket, WireFormat.WebSocketBinary).Join("hall");

        await _transport.SendAsync(Deliveries.ToGroup("hall", "hi", "there"));

        Assert.Equal("hithere", raw.Text);
        Assert.Equal([0x81, 2, .. "hi"u8, 0x81, 5, .. "there"u8], text.Wire.Written);
        Assert.Equal([0x82, 2, .. "hi"u8, 0x82, 5, .. "there"u8], binary.Wire.Written);
    }

    [Fact]
    public async Task Bytes_are_counted_as_they_go_over_the_wire()
    {
        new FakeClient(_transport).Join("hall");
        new FakeClient(_transport, ClientProtocol.WebSocket, WireFormat.WebSocketText).Join("hall");

        await _transport.SendAsync(Deliveries.ToGroup("hall", "12345678", "12345678"));

        var counted = _transport.GetStatistics();
        Assert.Equal((4, 16 + 20), (counted.SentMessages, counted.SentBytes));
        Assert.Equal((2, 1), (counted.Connections, counted.Groups));
        counted.AssertAddsUp();
    }

    [Fact]
    public async Task A_disposed_transport_takes_nothing_and_ends_its_connections()
    {
        var client = new FakeClient(_transport);

        await _transport.DisposeAsync();

        await Assert.ThrowsAsync<ObjectDisposedException>(() => _transport.SendAsync(Deliveries.To(client.Handle, "late")));
        Assert.Equal(DisconnectReason.Stopped, await client.Connection.Closing.WithinDeadline());
        Assert.True(client.Wire.IsAborted);
    }
}

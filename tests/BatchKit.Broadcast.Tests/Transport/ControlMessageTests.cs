using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Tests.Transport;

public sealed class ControlMessageTests : IAsyncDisposable
{
    private readonly BroadcastTransport _transport = new();

    public ValueTask DisposeAsync() => _transport.DisposeAsync();

    [Fact]
    public async Task A_join_takes_effect_between_the_batches_around_it()
    {
        var client = new FakeClient(_transport);

        await _transport.SendAsync(
            Deliveries.ToGroup("hall", "too early "),
            Deliveries.To(client.Handle, Some.Message("enter "), Deliveries.Control(ControlMessage.JoinGroup("hall")), Some.Message("entered ")),
            Deliveries.ToGroup("hall", "welcome"));

        Assert.Equal("enter entered welcome", client.Text);
        Assert.Equal([client.Connection], _transport.GetMembers("hall"));
        Assert.Equal(["hall"], _transport.GetGroups(client.Handle));
        Assert.True(client.Connection.IsAuthenticated);
    }

    [Fact]
    public async Task A_leave_takes_effect_between_the_batches_around_it()
    {
        var client = new FakeClient(_transport).Join("hall");

        await _transport.SendAsync(
            Deliveries.ToGroup("hall", "last "),
            Deliveries.To(client.Handle, Deliveries.Control(ControlMessage.LeaveGroup("hall")), Some.Message("left")),
            Deliveries.ToGroup("hall", " too late"));

        Assert.Equal("last left", client.Text);
        Assert.Empty(_transport.GetMembers("hall"));
        Assert.Equal(0, _transport.GetStatistics().Groups);
    }

    [Fact]
    public async Task A_close_lets_what_was_written_before_go_first_and_nothing_after()
    {
        var client = new FakeClient(_transport).Join("hall");

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => _transport.SendAsync(
            Deliveries.ToGroup("hall", "one "),
            Deliveries.To(client.Handle, Some.Message("two"), Deliveries.Control(ControlMessage.Close), Some.Message("never")),
            Deliveries.ToGroup("hall", "never"),
            Deliveries.To(client.Handle, "never")));

        Assert.Equal("one two", client.Text);
        Assert.Equal(BatchOutcome.Refused, exception.Outcomes[3]);
        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Acknowledged, BatchOutcome.Acknowledged], exception.Outcomes[..3].ToArray());
        Assert.Equal(DisconnectReason.Closed, await client.Connection.Closing.WithinDeadline());
        Assert.True(client.Wire.IsFinished);
        Assert.Empty(_transport.GetMembers("hall"));
    }

    [Fact]
    public async Task What_was_written_behind_a_close_is_counted_as_dropped()
    {
        var client = new FakeClient(_transport);

        await _transport.SendAsync(Deliveries.To(
            client.Handle, Some.Message("two"), Deliveries.Control(ControlMessage.Close), Some.Message("never"), Deliveries.Excluding("not for it", client.Handle)));

        var counted = _transport.GetStatistics();
        Assert.Equal("two", client.Text);
        Assert.Equal((2, 1, 1, 5), (counted.AcceptedMessages, counted.SentMessages, counted.DroppedClosedMessages, counted.DroppedClosedBytes));
        counted.AssertAddsUp();
    }

    [Fact]
    public async Task A_closed_connection_joins_nothing_any_more()
    {
        var client = new FakeClient(_transport);
        await _transport.SendAsync(Deliveries.To(client.Handle, Deliveries.Control(ControlMessage.Close)));

        await _transport.SendAsync(Deliveries.To(client.Handle, Deliveries.Control(ControlMessage.JoinGroup("hall"))));

        Assert.Empty(_transport.GetMembers("hall"));
        Assert.Equal(0, _transport.GetStatistics().Groups);
    }

    [Theory]
    [InlineData(new byte[] { 99 })]
    [InlineData(new byte[] { (byte)ControlOperation.JoinGroup, 0xff })]
    public async Task An_unknown_control_message_is_ignored_and_counted(byte[] payload)
    {
        var client = new FakeClient(_transport);

        await _transport.SendAsync(Deliveries.To(client.Handle, Some.Message("a"), new BatchMessage(payload, MessageHeader.Control), Some.Message("b")));

        Assert.Equal("ab", client.Text);
        Assert.Empty(_transport.GetGroups(client.Handle));
        Assert.Equal(1, _transport.GetStatistics().UnknownControlMessages);
        _transport.GetStatistics().AssertAddsUp();
    }

    [Fact]
    public async Task A_control_message_for_a_group_does_nothing_and_reaches_nobody()
    {
        var client = new FakeClient(_transport).Join("hall");

        await _transport.SendAsync(Deliveries.ToGroup("hall", Some.Message("a"), Deliveries.Control(ControlMessage.Close), Some.Message("b")));

        Assert.Equal("ab", client.Text);
        Assert.Equal([client.Connection], _transport.GetMembers("hall"));
    }

    [Fact]
    public async Task Control_messages_keep_their_order_over_a_brokers_frame()
    {
        var broker = new InMemoryTransport(_transport);
        await using var output = new OutputBuffer(broker);
        var (client, other) = (new FakeClient(_transport), new FakeClient(_transport).Join("hall"));

        using (output.BeginBufferingScope())
        {
            output.Write(client.Handle, "enter ");
            output.Write(client.Handle, ControlMessage.JoinGroup("hall"));
            output.Write(OutputHandle.Named("hall"), "all ");
        }

        await output.FlushAsync().WithinDeadline();
        output.Write(client.Handle, ControlMessage.LeaveGroup("hall"));
        output.Write(OutputHandle.Named("hall"), "gone ");
        output.Write(client.Handle, "bye");
        output.Write(client.Handle, ControlMessage.Close);
        await output.FlushAsync().WithinDeadline();

        Assert.Equal(("enter all bye", "all gone "), (client.Text, other.Text));
        Assert.True(client.Wire.IsFinished);
    }
}

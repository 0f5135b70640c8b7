using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Tests.Transport;

/// <summary>
/// The rules of the transport specification that a last hop can obey: it has no receiver behind it that could show batches, headers and numbers, or fail. Where a
/// rule needs a hop before it, that is a broker's way in memory.
/// </summary>
public sealed class LastHopTests : IAsyncDisposable
{
    private readonly BroadcastTransport _transport = new(node: 1);

    public ValueTask DisposeAsync() => _transport.DisposeAsync();

    [Fact]
    public async Task Order_holds_across_handles_for_a_client_that_gets_from_all_of_them()
    {
        var client = new FakeClient(_transport).Join("first", "second", "third");
        OutputHandle[] handles = [client.Handle, OutputHandle.Named("first"), OutputHandle.Named("second"), OutputHandle.Named("third")];

        for (var number = 1; number <= 100; number += 2)
            await _transport.SendAsync(Deliveries.To(handles[number % 4], $"{number} "), Deliveries.To(handles[(number + 1) % 4], $"{number + 1} "));

        Assert.Equal(string.Concat(Enumerable.Range(1, 100).Select(number => $"{number} ")), client.Text);
        Assert.Equal(50, client.Wire.Writes);
    }

    [Fact]
    public async Task Empty_messages_arrive()
    {
        var (raw, webSocket) = (new FakeClient(_transport).Join("hall"), new FakeClient(_transport, ClientProtocol.WebSocket, WireFormat.WebSocketText).Join("hall"));

        await _transport.SendAsync(Deliveries.ToGroup("hall", "", "x", ""));

        Assert.Equal("x", raw.Text);
        Assert.Equal([0x81, 0, 0x81, 1, (byte)'x', 0x81, 0], webSocket.Wire.Written);
        Assert.Equal(6, _transport.GetStatistics().SentMessages);
    }

    [Fact]
    public async Task The_largest_message_arrives_whole_even_when_it_must_wait()
    {
        var payload = Some.RandomBytes(_transport.MaxMessageBytes);
        var (quick, slow) = (new FakeClient(_transport).Join("hall"), new FakeClient(_transport).Join("hall"));
        slow.Wire.Limit(1000);

        await _transport.SendAsync(Deliveries.ToGroup("hall", new BatchMessage(payload), Some.Message("behind it")));
        var heldBytes = slow.Connection.Output.HeldBytes;
        slow.Wire.Open();
        await Until.TrueAsync(() => slow.Connection.Output.HeldBytes == 0);

        byte[] expected = [.. payload, .. "behind it"u8];
        Assert.Equal(expected, quick.Wire.Written);
        Assert.Equal(expected, slow.Wire.Written);

        // The memory that the messages take: an array for each, and what keeps them in order.
        var needed = QueuedSegment.HeldBytesFor(SharedBuffer.CapacityFor(payload.Length)) + QueuedSegment.HeldBytesFor(SharedBuffer.CapacityFor("behind it".Length));
        Assert.Equal(needed, heldBytes);
    }

    [Fact]
    public async Task Thousands_of_batches_leave_in_one_send()
    {
        const int count = 4096;
        var clients = Enumerable.Range(0, 64).Select(_ => new FakeClient(_transport)).ToArray();
        for (var index = 0; index < 64; index += 4)
            clients[index].Join($"group {index}");

        await _transport.SendAsync([.. Enumerable.Range(0, count).Select(number =>
            number % 8 == 0 ? Deliveries.ToGroup($"group {number % 64}", $"{number} ") : Deliveries.To(clients[number % 64].Handle, $"{number} "))]);

        foreach (var (client, index) in clients.Select((client, index) => (client, index)))
            Assert.Equal((1, string.Concat(Enumerable.Range(0, count).Where(number => number % 64 == index).Select(number => $"{number} "))), (client.Wire.Writes, client.Text));
    }

    [Fact]
    public async Task A_cancelled_token_throws_and_sends_nothing()
    {
        var client = new FakeClient(_transport);
        MessageBatch[] batches = [Deliveries.To(client.Handle, "never")];

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => _transport.SendAsync(batches, new CancellationToken(canceled: true)).WithinDeadline());

        Assert.Equal((0, 0L), (client.Wire.Writes, _transport.GetStatistics().AcceptedMessages));
    }

    [Fact]
    public async Task A_connection_that_is_gone_does_not_block_its_neighbours_over_a_broker()
    {
        await using var broker = new InMemoryTransport(_transport);
        var (gone, here) = (new FakeClient(_transport), new FakeClient(_transport));
        gone.Leave();

        await broker.SendAsync(new[] { Deliveries.To(here.Handle, "before "), Deliveries.To(gone.Handle, "lost"), Deliveries.To(here.Handle, "after") }, CancellationToken.None)
            .WithinDeadline();

        Assert.Equal("before after", here.Text);
    }

    [Fact]
    public async Task What_a_broker_sends_again_is_delivered_once()
    {
        await using var broker = new InMemoryTransport(_transport);
        var client = new FakeClient(_transport).Join("hall");
        MessageBatch[] batches = [Deliveries.To(client.Handle, "one "), Deliveries.ToGroup("hall", "two")];

        await broker.SendAsync(batches, CancellationToken.None).WithinDeadline();
        await broker.SendAsync(batches, CancellationToken.None).WithinDeadline();

        Assert.Equal("one two", client.Text);
        Assert.Equal(2, _transport.GetStatistics().AcceptedMessages);
    }

    [Fact]
    public async Task What_one_ambient_scope_wrote_to_a_clients_groups_and_to_itself_is_one_write_in_order()
    {
        await using var output = new OutputBuffer(_transport);
        var (client, bystander) = (new FakeClient(_transport).Join("hall", "guild"), new FakeClient(_transport).Join("guild"));

        using (output.BeginBufferingScope())
        {
            for (var line = 0; line < 10; line++)
                output.Write(OutputHandle.Named("hall"), $"h{line} ");
            for (var line = 0; line < 10; line++)
                output.Write(OutputHandle.Named("guild"), $"g{line} ");
            output.Write(client.Handle, "> ", MessageHeader.Prompt);
        }

        await output.FlushAsync().WithinDeadline();

        string Lines(char start) => string.Concat(Enumerable.Range(0, 10).Select(line => $"{start}{line} "));
        Assert.Equal((1, Lines('h') + Lines('g') + "> "), (client.Wire.Writes, client.Text));
        Assert.Equal((1, Lines('g')), (bystander.Wire.Writes, bystander.Text));
    }
}

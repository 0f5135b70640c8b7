using System.Text;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.Tests.Connections;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Broadcast.Tests.Tcp;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Options;

namespace BatchKit.Broadcast.Tests.Transport;

/// <summary>One below, at and above the limits of clients, of what they send and of what waits for them. Those of a parser are in its own tests.</summary>
public sealed class LimitTests
{
    private const int MaxRecordBytes = 1000;

    public static TheoryData<string, IRecordCutter, Func<int, byte[]>> Records => new()
    {
        { "line", LineCutter.Shared, static length => Encoding.ASCII.GetBytes(new string('x', length) + "\n") },
        { "line with CR", LineCutter.Shared, static length => Encoding.ASCII.GetBytes(new string('x', length) + "\r\n") },
        { "length", LengthPrefixCutter.Shared, static length => [0, 0, (byte)(length >> 8), (byte)length, .. Payload(length)] },
        { "little-endian length", LengthPrefixCutter.LittleEndian, static length => [(byte)length, (byte)(length >> 8), 0, 0, .. Payload(length)] },
        { "varint", LengthPrefixCutter.Varint, static length => [(byte)(length | 0x80), (byte)(length >> 7), .. Payload(length)] },
    };

    [Theory]
    [MemberData(nameof(Records))]
    public async Task A_record_over_TCP_has_up_to_MaxRecordBytes(string framing, IRecordCutter cutter, Func<int, byte[]> write)
    {
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { MaxRecordBytes = MaxRecordBytes }, listener => listener.Cutter = cutter);
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();

        await client.SendAsync(write(MaxRecordBytes - 1));
        await client.SendAsync(write(MaxRecordBytes));
        int[] lengths = [(await handler.Records.ReadAsync().AsTask().WithinDeadline()).Length, (await handler.Records.ReadAsync().AsTask().WithinDeadline()).Length];
        await client.SendAsync(write(MaxRecordBytes + 1));
        await client.ReadToEndAsync();
        client.Dispose();

        Assert.Equal((framing, DisconnectReason.ProtocolError), (framing, await handler.Ended.WithinDeadline()));
        Assert.Equal([MaxRecordBytes - 1, MaxRecordBytes], lengths);
        Assert.Contains($"{MaxRecordBytes} bytes", await server.LoggedAsync(2305), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(15, false)]
    [InlineData(16, true)]
    [InlineData(1 << 29, true)]
    [InlineData((1 << 29) + 1, false)]
    public async Task MaxRecordBytes_is_at_most_what_the_filter_takes(int bytes, bool isValid)
    {
        var failure = await Record.ExceptionAsync(async () =>
        {
            await using var transport = new BroadcastTransport(new BroadcastOptions { MaxRecordBytes = bytes });
        });

        Assert.Equal(isValid, failure is null);
        if (!isValid)
            Assert.Contains(nameof(BroadcastOptions.MaxRecordBytes), Assert.IsType<OptionsValidationException>(failure).Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(7, true)]
    [InlineData(8, true)]
    [InlineData(9, false)]
    public async Task A_client_that_is_not_authenticated_may_send_up_to_MaxUnauthenticatedBytes(int bytes, bool isKept)
    {
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { MaxUnauthenticatedBytes = 8 });
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();

        // In two reads, or in one.
        await client.SendAsync(new string('x', bytes - 1));
        await client.SendAsync("\n");

        if (isKept)
        {
            Assert.Equal(new string('x', bytes - 1), await client.ReadLineAsync());
            Assert.False(handler.Ended.IsCompleted);
            return;
        }

        Assert.Equal("", await client.ReadToEndAsync());
        client.Dispose();
        Assert.Equal(DisconnectReason.NotAuthenticated, await handler.Ended.WithinDeadline());
        Assert.Equal(0, handler.Records.Count);
    }

    [Theory]
    [InlineData(-1, true)]
    [InlineData(0, true)]
    [InlineData(1, false)]
    public async Task A_message_has_up_to_half_of_MaxQueuedBytes_and_a_larger_one_is_rejected_at_the_write(int above, bool isAccepted)
    {
        await using var transport = new BroadcastTransport(new BroadcastOptions { MaxQueuedBytes = 64 * 1024 }, node: 1);
        await using var output = new OutputBuffer(transport);
        var client = new FakeClient(transport);
        var payload = new byte[transport.MaxMessageBytes + above];

        var failure = Record.Exception(() => output.Write(client.Handle, payload));
        await output.FlushAsync().WithinDeadline();

        Assert.Equal(isAccepted ? payload.Length : 0, client.Wire.Written.Length);
        Assert.Equal(isAccepted, failure is null);
        if (!isAccepted)
            Assert.Contains($"{transport.MaxMessageBytes}", Assert.IsType<OutputOverflowException>(failure).Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task The_largest_message_waits_for_a_client_of_each_protocol_though_its_framing_doubles_each_byte()
    {
        await using var transport = new BroadcastTransport(new BroadcastOptions { MaxQueuedBytes = 64 * 1024 }, node: 1);
        WireFormat[] formats =
        [
            WireFormat.Raw, WireFormat.WebSocketText, WireFormat.WebSocketBinary,
            .. from charset in Enum.GetValues<TelnetCharset>() from ending in Enum.GetValues<PromptEnding>() select WireFormat.Telnet(charset, ending, takesGmcp: false),
        ];
        var clients = Array.ConvertAll(formats, format => new FakeClient(transport, ClientProtocol.Telnet, format).Join("hall"));
        foreach (var client in clients)
            client.Wire.Limit(0);
        var payload = new byte[transport.MaxMessageBytes];
        Array.Fill(payload, (byte)0xFF);

        await transport.SendAsync(Deliveries.ToGroup("hall", new BatchMessage(payload)));
        foreach (var client in clients)
            client.Wire.Open();
        await Until.TrueAsync(() => Array.TrueForAll(clients, static client => client.Connection.Output.HeldBytes == 0));

        Assert.All(clients, client => Assert.InRange(client.Wire.Written.Length, payload.Length, 2 * payload.Length + 16));
        Assert.Equal(clients.Length, transport.GetStatistics().SentMessages);
    }

    [Theory]
    [InlineData(4096)]
    [InlineData(5000)]
    [InlineData(64 * 1024)]
    [InlineData(80 * 1024)]
    [InlineData(100_000)]
    [InlineData((1 << 20) + 600)]
    public async Task The_largest_messages_that_wait_take_no_more_than_MaxQueuedBytes(int maxQueuedBytes)
    {
        await using var transport = new BroadcastTransport(new BroadcastOptions { MaxQueuedBytes = maxQueuedBytes, SlowConsumer = SlowConsumerPolicy.DropOldest }, node: 1);
        WireFormat[] formats = [WireFormat.Raw, WireFormat.WebSocketBinary, WireFormat.Telnet(TelnetCharset.Utf8, PromptEnding.None, takesGmcp: false)];
        var clients = Array.ConvertAll(formats, format => new FakeClient(transport, ClientProtocol.Telnet, format).Join("hall"));
        foreach (var client in clients)
            client.Wire.Limit(0);
        var payload = new byte[transport.MaxMessageBytes];
        Array.Fill(payload, (byte)0xFF);

        foreach (var destination in new[] { OutputHandle.Named("hall"), clients[0].Handle, clients[2].Handle, OutputHandle.Named("hall") })
        {
            await transport.SendAsync(Deliveries.To(destination, new BatchMessage(payload)));
            Assert.All(clients, client => Assert.InRange(client.Connection.Output.HeldBytes, 1, maxQueuedBytes));
        }

        foreach (var client in clients)
            client.Wire.Open();
        await Until.TrueAsync(() => Array.TrueForAll(clients, static client => client.Connection.Output.HeldBytes == 0));
        transport.GetStatistics().AssertAddsUp();
    }

    [Theory]
    [InlineData(SlowConsumerPolicy.Disconnect)]
    [InlineData(SlowConsumerPolicy.DropNewest)]
    [InlineData(SlowConsumerPolicy.DropOldest)]
    public void As_many_messages_as_MaxQueuedMessages_wait(SlowConsumerPolicy policy)
    {
        const int maxMessages = 5;
        var wire = new FakeWire();
        var queue = new SendQueue(wire, new SendQueueLimits(1024 * 1024, maxMessages, policy), new DeliveryCounters(), new ManualTimeProvider());
        wire.Limit(0);

        var sent = Enumerable.Range(0, maxMessages + 1).Select(_ => Send(queue, 100)).ToArray();

        Assert.Equal([.. Enumerable.Range(1, maxMessages), maxMessages], sent.Select(static outcome => outcome.Waiting));
        Assert.Equal(policy == SlowConsumerPolicy.Disconnect ? DisconnectReason.SlowConsumer : null, sent[^1].Refusal);
        Assert.All(sent[..^1], static outcome => Assert.Null(outcome.Refusal));
    }

    [Theory]
    [InlineData(SlowConsumerPolicy.Disconnect)]
    [InlineData(SlowConsumerPolicy.DropNewest)]
    [InlineData(SlowConsumerPolicy.DropOldest)]
    public void As_much_memory_as_MaxQueuedBytes_waits(SlowConsumerPolicy policy)
    {
        // An array of 1,024 bytes and what keeps it in order, three times, beside what is kept for a close frame.
        var capacity = 3 * QueuedSegment.HeldBytesFor(1024);
        var any = new SendQueueLimits(1024 * 1024, 1, policy);
        var closing = any.MaxBytes - any.MessageCapacityBytes;
        foreach (var above in (int[])[-1, 0, 1])
        {
            var wire = new FakeWire();
            var queue = new SendQueue(wire, new SendQueueLimits(capacity + closing + above, 100, policy), new DeliveryCounters(), new ManualTimeProvider());
            wire.Limit(0);

            Send(queue, 1024);
            Send(queue, 1024);
            var last = Send(queue, 1024);

            Assert.Equal((above, above < 0 ? 2 : 3), (above, last.Waiting));
            Assert.Equal(above < 0 && policy == SlowConsumerPolicy.Disconnect ? DisconnectReason.SlowConsumer : null, last.Refusal);
        }
    }

    private static (int Waiting, DisconnectReason? Refusal) Send(SendQueue queue, int bytes)
    {
        var tally = default(DeliveryTally);
        var refusal = queue.Send(new OutputRun(new byte[bytes], messages: 1), ref tally);
        return ((int)queue.Waiting.Messages, refusal);
    }

    private static byte[] Payload(int length) => Encoding.ASCII.GetBytes(new string('x', length));
}

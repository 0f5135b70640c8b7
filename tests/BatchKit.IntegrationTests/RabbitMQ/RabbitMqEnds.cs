using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>Both ends of the path over the broker, as these tests use them: a receiver of node 1, and lines for a connection there.</summary>
internal static class RabbitMqEnds
{
    public const int Node = 1;

    public static async Task<RabbitMqReceiver> StartAsync(RabbitMqOptions options, IBatchTransport next, int node = Node)
    {
        var receiver = await CreateAsync(options, next, node);
        Assert.Null(receiver.Fault);
        return receiver;
    }

    public static async Task<RabbitMqReceiver> CreateAsync(RabbitMqOptions options, IBatchTransport next, int node = Node)
    {
        var receiver = new RabbitMqReceiver(options, node, new BatchReceiver(next, new BatchReceiverOptions { RetryDelay = TimeSpan.FromMilliseconds(1) }));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        return receiver;
    }

    public static async Task SendLinesAsync(RabbitMqTransport transport, int count)
    {
        var producer = Some.Producer();
        var handle = Some.Connection(Node);
        for (var line = 0; line < count; line++)
            await transport.SendAsync(new[] { Some.Batch(handle, producer, line + 1, $"line {line}") }, CancellationToken.None);
    }

    /// <summary>What a frame takes besides its one message of this size.</summary>
    public static int FrameOverheadBytes(int messageBytes) => Some.Frame(Some.Batch(Some.Connection(Node), Some.Producer(), 1, new string('x', messageBytes))).Length - messageBytes;

    /// <summary>Writes numbered lines, and resets all connections behind each that has arrived, until told to stop; then writes one more. Returns how many.</summary>
    public static async Task<int> WriteAcrossResetsAsync(IOutputBuffer output, OutputHandle handle, CollectingTransport arrived, TcpProxy proxy, Func<bool> isEnough)
    {
        for (var line = 0; ; line++)
        {
            var isLast = isEnough();
            output.Write(handle, Some.Bytes($"line {line}"));
            await output.FlushAsync().WithinDeadline();
            await arrived.WaitForMessagesAsync(line + 1);
            if (isLast)
                return line + 1;
            var connections = proxy.AcceptedConnections;
            proxy.ResetAll();
            await Until.TrueAsync(() => proxy.AcceptedConnections > connections);
        }
    }

    /// <summary>Sends lines to a receiver, stops it, and sends lines again: a second receiver, which waits until then, gets those.</summary>
    public static async Task AssertTakeOverAsync(RabbitMqOptions options, RabbitMqReceiver first, CollectingTransport firstLines, CollectingTransport secondLines)
    {
        await using var transport = new RabbitMqTransport(options);

        await SendLinesAsync(transport, count: 20);
        await firstLines.WaitForMessagesAsync(20);
        await first.StopAsync(CancellationToken.None);
        await SendLinesAsync(transport, count: 20);
        await secondLines.WaitForMessagesAsync(20);

        Assert.Equal(Some.Lines(20), firstLines.Texts);
        Assert.Equal(Some.Lines(20), secondLines.Texts);
    }

    // Until the receiver has declared its queue again, the transport's grace lets it fail without a refusal.
    public static async Task SendUntilRoutedAsync(RabbitMqTransport transport)
    {
        using var deadline = new CancellationTokenSource(Deadline.Time);
        while (true)
        {
            try
            {
                await SendLinesAsync(transport, count: 1);
                return;
            }
            catch (Exception exception) when (exception is IOException or BatchSendException)
            {
                await Task.Delay(TimeSpan.FromMilliseconds(20), deadline.Token);
            }
        }
    }
}

using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>Both ends of the way over the broker, as these tests use them: a receiver of node 1, and lines for a connection there or for a topic.</summary>
internal static class MqttEnds
{
    public const int Node = 1;

    public static async Task<MqttReceiver> StartAsync(MqttOptions options, IBatchTransport next, int node = Node)
    {
        var receiver = await MakeAsync(options, next, node);
        Assert.Null(receiver.Fault);
        return receiver;
    }

    public static async Task<MqttReceiver> MakeAsync(MqttOptions options, IBatchTransport next, int node = Node)
    {
        var retries = new BatchReceiverOptions { RetryDelay = TimeSpan.FromMilliseconds(1), MaxRetryDelay = TimeSpan.FromMilliseconds(5) };
        var receiver = new MqttReceiver(options, node, new BatchReceiver(next, retries));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        return receiver;
    }

    /// <summary>Sends numbered lines, a batch each, each acknowledged before the next.</summary>
    public static async Task SendLinesAsync(MqttTransport transport, OutputHandle handle, int count, int start = 0)
    {
        var producer = Some.Producer();
        for (var line = 0; line < count; line++)
            await transport.SendAsync(new[] { Some.Batch(handle, producer, line + 1, $"line {start + line}") }, CancellationToken.None).WithinDeadline();
    }
}

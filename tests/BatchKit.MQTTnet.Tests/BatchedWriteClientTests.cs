using BatchKit.MQTTnet.Tests.Support;
using BatchKit.Testing;
using BatchKit.Transports;
using MQTTnet.Protocol;

namespace BatchKit.MQTTnet.Tests;

public sealed class BatchedWriteClientTests : IAsyncLifetime
{
    private const int Messages = 1000;

    private TestServer _server = null!;

    public async ValueTask InitializeAsync() => _server = await TestServer.StartAsync(options => options.WithMaxPendingMessagesPerClient(1_000_000));

    public ValueTask DisposeAsync() => _server.DisposeAsync();

    [Theory]
    [InlineData(MqttQualityOfServiceLevel.AtMostOnce)]
    [InlineData(MqttQualityOfServiceLevel.AtLeastOnce)]
    public async Task A_send_leaves_in_a_few_writes_of_the_same_bytes_as_the_stock_clients(MqttQualityOfServiceLevel qualityOfService)
    {
        var batches = MakeBatches();

        var stock = await SendAsync(batches, isBatched: false, qualityOfService);
        var batched = await SendAsync(batches, isBatched: true, qualityOfService);

        Assert.Equal(stock.Bytes, batched.Bytes);
        // A head and a payload for each message there; here the CONNECT, the send, and as many as the scheduler makes of a send whose first packets were under way already.
        Assert.InRange(stock.Writes.Count, Messages, int.MaxValue);
        Assert.InRange(batched.Writes.Count, 2, Messages / 50);
    }

    [Fact]
    public async Task Publishes_of_the_application_itself_arrive_in_order_too()
    {
        var subscriber = await Subscriber.StartAsync(_server);
        var client = await _server.ConnectAsync(new BatchedWriteClientAdapterFactory());

        var publishes = Enumerable.Range(1, 2000).Select(number => client.PublishAsync(new PublishSettings(MqttQualityOfServiceLevel.AtMostOnce, Retain: false, Expiry: null)
            .CreateMessage("t", Some.Bytes($"{number}"), header: null, properties: null))).ToArray();
        await Task.WhenAll(publishes).WithinDeadline();
        await subscriber.WaitForMessagesAsync(2000);

        Assert.Equal(Enumerable.Range(1, 2000).Select(number => $"{number}"), subscriber.Texts);
    }

    [Fact]
    public async Task What_was_published_at_quality_0_before_a_clean_disconnect_arrives()
    {
        var subscriber = await Subscriber.StartAsync(_server);
        var client = _server.MakeClient(new BatchedWriteClientAdapterFactory());
        using var transport = new MqttClientTransport(client, new MqttClientTransportOptions { QualityOfService = MqttQualityOfServiceLevel.AtMostOnce });
        await _server.ConnectAsync(client);

        await transport.SendAsync(MakeBatches(), CancellationToken.None).WithinDeadline();
        await client.DisconnectAsync(new global::MQTTnet.MqttClientDisconnectOptions()).WithinDeadline();
        await subscriber.WaitForMessagesAsync(Messages);

        Assert.Equal(Messages, subscriber.Messages.Count);
    }

    private static MessageBatch[] MakeBatches()
    {
        var producer = Some.Producer();
        return [.. Enumerable.Range(0, Messages / 20).Select(number => Some.Batch(OutputHandle.Named($"topic/{number}"), producer, number + 1, Some.Lines(20, number * 20)))];
    }

    private async Task<RecordingChannel> SendAsync(MessageBatch[] batches, bool isBatched, MqttQualityOfServiceLevel qualityOfService)
    {
        var factory = new RecordingFactory(isBatched);
        var client = _server.MakeClient(factory);
        using var transport = new MqttClientTransport(client, new MqttClientTransportOptions { QualityOfService = qualityOfService });
        await _server.ConnectAsync(client, clientId: "recorded", options => options.WithCleanStart());
        await transport.SendAsync(batches, CancellationToken.None).WithinDeadline();
        // Ends with the DISCONNECT, before which everything has been written.
        await client.DisconnectAsync(new global::MQTTnet.MqttClientDisconnectOptions()).WithinDeadline();
        // The server may still end it when the next one connects with the same id, and then ends that one.
        await Until.TrueAsync(async () => (await _server.Server.GetClientsAsync()).Count == 0);
        return factory.Channel;
    }
}

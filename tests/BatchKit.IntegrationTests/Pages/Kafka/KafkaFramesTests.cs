using BatchKit.Testing;
using Confluent.Kafka;

namespace BatchKit.IntegrationTests.Pages.Kafka;

/// <summary>The example for Kafka of docs/your-own-bus.md, with the real client and the broker that its native library brings for tests.</summary>
public sealed class KafkaFramesTests : IDisposable
{
    // The brokers live in this client, and end with it. A topic has four partitions there.
    private readonly IAdminClient _cluster = new AdminClientBuilder(new AdminClientConfig(new Dictionary<string, string> { ["test.mock.num.brokers"] = "1", ["bootstrap.servers"] = "none" })).Build();

    [Fact]
    public async Task Frames_for_a_node_and_for_all_nodes_arrive_in_one_order()
    {
        await using var sender = await KafkaNode.StartAsync(node: 0, Servers());
        await using var receiver = await KafkaNode.StartAsync(node: 1, Servers());

        await FrameNode.AssertOneOrderAsync(sender, receiver);
    }

    [Fact]
    public async Task A_node_that_never_ran_before_gets_no_earlier_output()
    {
        await using var sender = await KafkaNode.StartAsync(node: 0, Servers());
        await sender.WriteAsync(FrameNode.Room, "earlier");
        await sender.WaitForMessagesAsync(1);

        await using var receiver = await KafkaNode.StartAsync(node: 1, Servers());
        await sender.WriteAsync(FrameNode.Room, "later");

        await receiver.WaitForMessagesAsync(1);
        Assert.Equal(["later"], receiver.Texts);
    }

    [Fact]
    public async Task A_receiver_that_stops_while_it_handles_a_frame_gets_it_and_no_earlier_one_again()
    {
        await using var sender = await KafkaNode.StartAsync(node: 0, Servers());
        var stopping = await KafkaNode.StartAsync(node: 1, Servers());
        await sender.WriteAsync(stopping.Connection, "handled");
        await stopping.WaitForMessagesAsync(1);
        var held = stopping.NextHop.Stall();
        await sender.WriteAsync(stopping.Connection, "held");
        await held.EnteredAsync();
        await sender.WriteAsync(stopping.Connection, "behind it");

        await stopping.DisposeAsync();
        await using var next = await KafkaNode.StartAsync(node: 1, Servers());

        await next.WaitForMessagesAsync(2);
        Assert.Equal(["held", "behind it"], next.Texts);
    }

    public void Dispose() => _cluster.Dispose();

    // Asking for the topic creates it.
    private string Servers() => string.Join(',', _cluster.GetMetadata("frames", Deadline.Time).Brokers.Select(static broker => $"{broker.Host}:{broker.Port}"));
}

using BatchKit.TransportSpecification.Support;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>A buffer over its own in-memory bus, which is what UseMassTransit gives without settings.</summary>
public sealed class InMemoryBusTests
{
    [Fact]
    public async Task A_scope_arrives_as_one_batch_in_order()
    {
        await using var node = await MassTransitNode.StartReadyAsync(1, static _ => { });
        var handle = Some.Connection(1);

        await using (node.Output.BeginBufferingScope(handle))
        {
            foreach (var line in Some.Lines(1000))
                node.Output.Write(handle, Some.Bytes(line));
        }

        await node.Received.WaitForMessagesAsync(1000);
        Assert.Equal(Some.Lines(1000), node.Received.TextsFor(handle));
        Assert.Single(node.Received.Batches);
    }

    [Fact]
    public async Task Output_for_a_node_that_nobody_receives_for_is_refused()
    {
        await using var node = await MassTransitNode.StartReadyAsync(1, static options => options.UnroutableGrace = TimeSpan.Zero);
        var gone = Some.Connection(2);
        var scope = node.Output.BeginBufferingScope(gone);
        node.Output.Write(gone, Some.Bytes("lost"));

        await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());
    }
}

using BatchKit.Testing;

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
    public async Task A_group_that_no_one_receives_for_is_success()
    {
        await using var node = await MassTransitNode.StartReadyAsync(1, static _ => { });
        await node.Receiver.StopAsync(CancellationToken.None);

        await node.Transport.SendAsync(new[] { Some.Batch(Some.Group(), Some.Producer(), 1, "to no one") }, CancellationToken.None);

        Assert.Equal(0, node.Received.MessageCount);
    }

    [Fact]
    public async Task What_is_held_at_the_stop_is_sent_and_received_before_the_bus_ends()
    {
        await using var node = await MassTransitNode.StartReadyAsync(1, static _ => { });
        var handle = Some.Connection(1);
        node.Output.BeginBufferingScope(handle);
        foreach (var line in Some.Lines(100))
            node.Output.Write(handle, Some.Bytes(line));

        await node.StopAsync().WithinDeadline();

        Assert.Equal(Some.Lines(100), node.Received.TextsFor(handle));
        Assert.Equal(100, node.Output.GetStatistics().AcknowledgedMessages);
    }

    [Fact]
    public async Task A_receiver_may_be_stopped_twice_but_not_started_after_its_disposal()
    {
        await using var node = await MassTransitNode.StartReadyAsync(1, static _ => { });

        await node.Receiver.StopAsync(CancellationToken.None).WithinDeadline();
        await node.Receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await node.Receiver.DisposeAsync().AsTask().WithinDeadline();
        await node.Receiver.StopAsync(CancellationToken.None).WithinDeadline();

        await Assert.ThrowsAsync<ObjectDisposedException>(() => node.Receiver.StartAsync(CancellationToken.None));
    }

    [Fact]
    public async Task A_receiver_whose_next_transport_ignores_its_token_stops_nevertheless()
    {
        StalledSend? stalled = null;
        await using var node = await MassTransitNode.StartReadyAsync(1, static options => options.StopTimeout = TimeSpan.FromMilliseconds(100), next =>
        {
            var scripted = new ScriptedTransport(next);
            stalled = scripted.Stall(ignoresCancellation: true);
            return scripted;
        });
        await node.Transport.SendAsync(new[] { Some.Batch(Some.Connection(1), Some.Producer(), 1, "in hand") }, CancellationToken.None);
        await stalled!.EnteredAsync();

        await node.Receiver.StopAsync(CancellationToken.None).WithinDeadline();

        Assert.Equal("The receiver has stopped.", node.Receiver.Fault);
        stalled.Release();
    }

    [Fact]
    public async Task A_receiver_that_does_not_keep_up_holds_the_sender_back()
    {
        StalledSend? stalled = null;
        await using var node = await MassTransitNode.StartReadyAsync(1, static options => options.Prefetch = 2, next =>
        {
            var scripted = new ScriptedTransport(next);
            stalled = scripted.Stall();
            return scripted;
        });
        var (handle, producer) = (Some.Connection(1), Some.Producer());
        await node.Transport.SendAsync(new[] { Some.Batch(handle, producer, 1, "in hand") }, CancellationToken.None);
        await stalled!.EnteredAsync();
        await node.Transport.SendAsync(new[] { Some.Batch(handle, producer, 2, "waits") }, CancellationToken.None);

        var third = node.Transport.SendAsync(new[] { Some.Batch(handle, producer, 3, "waits for capacity") }, CancellationToken.None).AsTask();
        var hadCapacity = third.IsCompleted;
        stalled.Release();

        await third.WithinDeadline();
        await node.Received.WaitForMessagesAsync(3);
        Assert.False(hadCapacity);
        Assert.Equal(["in hand", "waits", "waits for capacity"], node.Received.Texts);
    }
}

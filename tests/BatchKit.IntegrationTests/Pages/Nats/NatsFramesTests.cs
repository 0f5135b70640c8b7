using BatchKit.Testing;

namespace BatchKit.IntegrationTests.Pages.Nats;

/// <summary>The example for NATS of docs/your-own-bus.md, with the real client and server.</summary>
public sealed class NatsFramesTests(NatsFixture nats)
{
    // A consumer stays at the server, so that each test has nodes of its own.
    private static int s_nodes;

    [Fact]
    public async Task Frames_for_a_node_and_for_all_nodes_arrive_in_one_order()
    {
        var server = await nats.GetAsync();
        await using var sender = await NatsNode.StartAsync(NextNode(), server.Address);
        await using var receiver = await NatsNode.StartAsync(NextNode(), server.Address);

        await FrameNode.AssertOneOrderAsync(sender, receiver);
    }

    [Fact]
    public async Task A_node_gets_no_frames_of_another_node()
    {
        var server = await nats.GetAsync();
        await using var sender = await NatsNode.StartAsync(NextNode(), server.Address);
        await using var first = await NatsNode.StartAsync(NextNode(), server.Address);
        await using var second = await NatsNode.StartAsync(NextNode(), server.Address);

        await sender.WriteAsync(second.Connection, "to the second");
        await sender.WriteAsync(first.Connection, "to the first");

        await first.WaitForMessagesAsync(1);
        await second.WaitForMessagesAsync(1);
        Assert.Equal(["to the first"], first.Texts);
        Assert.Equal(["to the second"], second.Texts);
    }

    [Fact]
    public async Task A_node_that_never_ran_before_gets_no_earlier_output()
    {
        var server = await nats.GetAsync();
        await using var sender = await NatsNode.StartAsync(NextNode(), server.Address);
        await sender.WriteAsync(FrameNode.Room, "earlier");
        await sender.WaitForMessagesAsync(1);

        await using var receiver = await NatsNode.StartAsync(NextNode(), server.Address);
        await sender.WriteAsync(FrameNode.Room, "later");

        await receiver.WaitForMessagesAsync(1);
        Assert.Equal(["later"], receiver.Texts);
    }

    [Fact]
    public async Task A_node_that_was_away_gets_what_was_sent_meanwhile()
    {
        var server = await nats.GetAsync();
        await using var sender = await NatsNode.StartAsync(NextNode(), server.Address);
        var away = await NatsNode.StartAsync(NextNode(), server.Address);
        await away.DisposeAsync();
        await sender.WriteAsync(away.Connection, "meanwhile");

        await using var back = await NatsNode.StartAsync(away.Node, server.Address);

        await back.WaitForMessagesAsync(1);
        Assert.Equal(["meanwhile"], back.Texts);
    }

    [Fact]
    public async Task A_receiver_that_stops_while_it_handles_a_frame_gives_it_back_for_its_next_start()
    {
        var server = await nats.GetAsync();
        await using var sender = await NatsNode.StartAsync(NextNode(), server.Address);
        var stopping = await NatsNode.StartAsync(NextNode(), server.Address);
        await using var answers = await NatsAnswers.ListenAsync(server.Address, stopping.Node);
        await HoldAsync(sender, stopping);

        await stopping.DisposeAsync();
        await answers.WaitForAsync("-NAK", count: 1);
        await using var next = await NatsNode.StartAsync(stopping.Node, server.Address);

        await next.WaitForMessagesAsync(2);
        Assert.Equal(["held", "behind it"], next.Texts);
    }

    [Fact]
    public async Task A_receiver_that_ends_without_a_word_gets_the_frame_again()
    {
        var server = await nats.GetAsync();
        await using var sender = await NatsNode.StartAsync(NextNode(), server.Address);
        var ending = await NatsNode.StartAsync(NextNode(), server.Address);
        await HoldAsync(sender, ending);

        await ending.BreakAsync();
        await using var next = await NatsNode.StartAsync(ending.Node, server.Address);

        await next.WaitForMessagesAsync(2);
        Assert.Equal(["held", "behind it"], next.Texts);
    }

    [Fact]
    public async Task A_frame_that_takes_longer_than_the_servers_patience_is_delivered_once()
    {
        var server = await nats.GetAsync();
        await using var sender = await NatsNode.StartAsync(NextNode(), server.Address);
        await using var receiver = await NatsNode.StartAsync(NextNode(), server.Address);
        await using var answers = await NatsAnswers.ListenAsync(server.Address, receiver.Node);
        var held = await HoldAsync(sender, receiver);

        // One for each third of AckWait.
        await answers.WaitForAsync("+WPI", count: 4);
        held.Release();

        await receiver.WaitForMessagesAsync(2);
        Assert.Equal(["held", "behind it"], receiver.Texts);
        await answers.WaitForAsync("+ACK", count: 2);
        Assert.Equal(1, answers.MostDeliveries);
    }

    private static int NextNode() => Interlocked.Increment(ref s_nodes);

    /// <summary>Sends two frames to a receiver that holds the first one until it is released.</summary>
    private static async Task<StalledSend> HoldAsync(NatsNode sender, NatsNode receiver)
    {
        var held = receiver.NextHop.Stall();
        await sender.WriteAsync(receiver.Connection, "held");
        await held.EnteredAsync();
        await sender.WriteAsync(receiver.Connection, "behind it");
        return held;
    }
}

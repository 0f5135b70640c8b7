using System.Diagnostics.Metrics;
using BatchKit.Testing;
using BatchKit.TestServers.Nats;
using BatchKit.TestServers.Network;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using NATS.Client.Core;
using NATS.Client.JetStream;
using NATS.Client.KeyValueStore;

namespace BatchKit.Nats.Tests;

/// <summary>Receivers that stop, break and share a number, nodes that are new or were away, and a server that is killed.</summary>
public sealed class NatsFaultTests(NatsFixture nats)
{
    [Fact]
    public async Task A_node_that_never_ran_gets_nothing_old()
    {
        var options = await nats.NewOptionsAsync();
        await using var sender = await NatsNode.StartAsync(options, 1);
        await sender.WriteAsync(NatsNode.Room, "earlier");
        await sender.WriteAsync(OutputHandle.Connection(2, 1), "earlier too");
        await sender.Arrived.WaitForMessagesAsync(1).WithinDeadline();

        await using var receiver = await NatsNode.StartAsync(options, 2);
        await sender.WriteAsync(NatsNode.Room, "later");

        await receiver.Arrived.WaitForMessagesAsync(1).WithinDeadline();
        Assert.Equal(["later"], receiver.Arrived.Texts);
    }

    [Fact]
    public async Task A_node_that_was_away_gets_what_was_sent_meanwhile()
    {
        var options = await nats.NewOptionsAsync();
        await using var sender = await NatsNode.StartAsync(options, 1);
        var away = await NatsNode.StartAsync(options, 2);
        var connection = away.Connection;
        await away.DisposeAsync();
        await sender.WriteAsync(connection, "meanwhile");

        await using var back = await NatsNode.StartAsync(options, 2);

        await back.Arrived.WaitForMessagesAsync(1).WithinDeadline();
        Assert.Equal(["meanwhile"], back.Arrived.Texts);
    }

    [Fact]
    public async Task A_receiver_that_stops_with_a_frame_in_hand_gives_it_to_its_successor_in_order()
    {
        var options = await nats.NewOptionsAsync();
        options.StopTimeout = TimeSpan.FromMilliseconds(100);
        await using var sender = await NatsNode.StartAsync(options, 1);
        var stopping = await NatsNode.StartAsync(options, 2);
        await HoldAsync(sender, stopping);

        await stopping.DisposeAsync();
        await using var next = await NatsNode.StartAsync(options, 2);

        await next.Arrived.WaitForMessagesAsync(2).WithinDeadline();
        Assert.Equal(["held", "behind it"], next.Arrived.Texts);
    }

    [Fact]
    public async Task A_receiver_whose_process_ends_without_a_word_leaves_its_number_and_its_frame_to_the_next()
    {
        var options = await nats.NewOptionsAsync();
        await using var sender = await NatsNode.StartAsync(options, 1);
        await using var connection = new NatsConnection(new NatsOpts { Url = options.Url! });
        var shared = await nats.NewOptionsAsync();
        (shared.Prefix, shared.Url, shared.StopTimeout) = (options.Prefix, null, TimeSpan.FromMilliseconds(100));
        await using var ending = await NatsNode.StartAsync(shared, 2, connection);
        await HoldAsync(sender, ending);

        await connection.DisposeAsync();
        await using var next = await NatsNode.StartAsync(options, 2);

        await next.Arrived.WaitForMessagesAsync(2).WithinDeadline();
        Assert.Equal(["held", "behind it"], next.Arrived.Texts);
    }

    [Fact]
    public async Task A_receiver_that_is_cut_off_gives_its_frame_up_when_its_lease_is_over()
    {
        var options = await nats.NewOptionsAsync();
        await using var sender = await NatsNode.StartAsync(options, 1);
        var server = new Uri(options.Url!);
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var behind = await nats.NewOptionsAsync();
        (behind.Prefix, behind.Url) = (options.Prefix, $"nats://127.0.0.1:{proxy.Port}");
        await using var cutOff = await NatsNode.StartAsync(behind, 2);
        var givenUp = new TaskCompletionSource();
        cutOff.NextHop.Then(async (_, cancellationToken) =>
        {
            cancellationToken.Register(givenUp.SetResult);
            await Task.Delay(Timeout.Infinite, cancellationToken);
        });
        await sender.WriteAsync(cutOff.Connection, "held");
        await Until.TrueAsync(() => cutOff.NextHop.Sends == 1);

        proxy.ForwardTo(FreePort.Take(1)[0]);
        proxy.ResetAll();
        await givenUp.Task.WithinDeadline();
        await using var next = await NatsNode.StartAsync(options, 2);

        await next.Arrived.WaitForMessagesAsync(1).WithinDeadline();
        Assert.Equal(["held"], next.Arrived.Texts);
        Assert.Empty(cutOff.Arrived.Texts);
    }

    [Fact]
    public async Task A_frame_that_is_held_for_long_is_delivered_once_and_health_says_so_meanwhile()
    {
        var options = await nats.NewOptionsAsync();
        await using var sender = await NatsNode.StartAsync(options, 1);
        await using var receiver = await NatsNode.StartAsync(options, 2);
        var held = await HoldAsync(sender, receiver);

        await Until.TrueAsync(async () => (await receiver.GetHealthAsync()).Status != HealthStatus.Healthy);
        held.Release();

        await receiver.Arrived.WaitForMessagesAsync(2).WithinDeadline();
        Assert.Equal(["held", "behind it"], receiver.Arrived.Texts);
        await receiver.WaitUntilHealthyAsync();
    }

    [Fact]
    public async Task A_meter_listener_that_throws_keeps_no_receiver_from_starting()
    {
        // Other tests create the same instrument at the same time.
        var isMine = new AsyncLocal<bool>();
        var thrown = 0;
        using var listener = new MeterListener
        {
            InstrumentPublished = (instrument, _) =>
            {
                if (!isMine.Value || instrument.Name != "batchkit.nats.dropped")
                    return;
                Interlocked.Increment(ref thrown);
                throw new InvalidOperationException("The listener is broken.");
            },
        };
        listener.Start();
        isMine.Value = true;
        var options = await nats.NewOptionsAsync();
        await using var sender = await NatsNode.StartAsync(options, 1);
        await using var receiver = await NatsNode.StartAsync(options, 2);

        await sender.WriteAsync(receiver.Connection, "hello");

        await receiver.Arrived.WaitForMessagesAsync(1).WithinDeadline();
        Assert.True(thrown > 0);
    }

    [Fact]
    public async Task A_holder_whose_number_another_process_has_receives_nothing_more()
    {
        var options = await nats.NewOptionsAsync();
        await using var sender = await NatsNode.StartAsync(options, 1);
        await using var holder = await NatsNode.StartAsync(options, 7);
        await using var connection = new NatsConnection(new NatsOpts { Url = options.Url! });
        var leases = await new NatsKVContext(new NatsJSContext(connection)).GetStoreAsync($"{options.Prefix}-nodes");

        await leases.PutAsync("7", "another process");
        await Until.TrueAsync(async () => (await holder.GetHealthAsync()).Description?.Contains("another process", StringComparison.Ordinal) == true);
        for (var line = 0; line < 20; line++)
            await sender.WriteAsync(holder.Connection, $"{line}");

        Assert.Empty(holder.Arrived.Texts);
    }

    [Fact]
    public async Task Two_processes_with_one_number_are_told_apart_and_those_without_lease_their_own()
    {
        var options = await nats.NewOptionsAsync();
        await using var holder = await NatsNode.StartAsync(options, 7);

        var taken = await Assert.ThrowsAsync<NodeTakenException>(() => NatsNode.StartAsync(options, 7));
        await using var third = await NatsNode.StartAsync(options);
        await using var fourth = await NatsNode.StartAsync(options);

        Assert.Contains($"Node 7 is held by process {Environment.ProcessId}", taken.Message, StringComparison.Ordinal);
        Assert.NotEqual(third.Number, fourth.Number);
        Assert.InRange(third.Number, NodeNumber.FirstLeased, OutputHandle.MaxNode);
    }

    [Fact]
    [Trait("Lane", "faults: NATS is killed again and again")]
    public async Task Nothing_that_was_accepted_is_lost_or_reordered_when_the_server_is_killed()
    {
        await using var server = await StartServerAsync();
        var options = NatsFixture.OptionsFor(server.Address);
        await using var sender = await NatsNode.StartAsync(options, 1);
        await using var receiver = await NatsNode.StartAsync(options, 2);
        await sender.WriteAsync(receiver.Connection, "0");
        await receiver.Arrived.WaitForMessagesAsync(1).WithinDeadline();
        var line = 1;

        // It writes acknowledgements to its disk a tenth of a second later. What waits for a node without one is lost up to version 2.9.15 (docs/decisions/0149).
        await server.StopAsync();
        await server.StartAsync();
        for (var kill = 0; kill < 4; kill++)
        {
            for (var until = line + 50; line < until; line++)
                sender.Output.Write(receiver.Connection, $"{line}");
            await server.KillAsync();
            for (var until = line + 50; line < until; line++)
                sender.Output.Write(receiver.Connection, $"{line}");
            await server.StartAsync();
            await sender.Output.FlushAsync(receiver.Connection).WithinDeadline();
        }

        await receiver.Arrived.WaitForMessagesAsync(receiver.Connection, line).WithinDeadline();
        Assert.Equal(Enumerable.Range(0, line).Select(static number => $"{number}"), receiver.Arrived.TextsFor(receiver.Connection));
        Assert.Equal((line, 0, 0), (sender.Output.GetStatistics().AcknowledgedMessages, sender.Output.GetStatistics().FailedMessages, sender.Output.GetStatistics().PendingMessages));
    }

    [Fact]
    [Trait("Lane", "faults: NATS is restarted again and again")]
    public async Task A_node_that_has_acknowledged_nothing_yet_gets_what_waits_after_the_server_was_restarted()
    {
        await using var server = await StartServerAsync();
        var options = NatsFixture.OptionsFor(server.Address);
        await using var sender = await NatsNode.StartAsync(options, 1);
        await using var receiver = await NatsNode.StartAsync(options, 2);
        var held = await HoldAsync(sender, receiver);
        await sender.WriteAsync(NatsNode.Room, "for all");
        await sender.Arrived.WaitForMessagesAsync(NatsNode.Room, 1).WithinDeadline();

        // The server looks at the consumers in an order that it draws.
        for (var restart = 0; restart < 6; restart++)
        {
            await server.StopAsync();
            await server.StartAsync();
        }

        held.Release();
        await receiver.Arrived.WaitForMessagesAsync(3).WithinDeadline();
        Assert.Equal(["held", "behind it", "for all"], receiver.Arrived.Texts);
    }

    [Theory]
    [MemberData(nameof(NatsTransportTests.Deliveries), MemberType = typeof(NatsTransportTests))]
    [Trait("Lane", "faults: NATS is killed")]
    public async Task A_sender_that_starts_while_the_server_is_away_sends_when_it_is_there(NatsDelivery delivery)
    {
        await using var server = await StartServerAsync();
        await server.KillAsync();
        var options = NatsFixture.OptionsFor(server.Address);
        options.Delivery = delivery;
        await using var transport = new NatsTransport(options);
        await using var output = new OutputBuffer(transport);
        output.Write(NatsNode.Room, "away");
        await Until.TrueAsync(() => output.GetStatistics().FailedSends > 0);

        await server.StartAsync();

        await Until.TrueAsync(() =>
        {
            output.Write(NatsNode.Room, "there");
            return output.GetStatistics().AcknowledgedMessages > 0;
        });
    }

    [Theory]
    [MemberData(nameof(NatsTransportTests.Deliveries), MemberType = typeof(NatsTransportTests))]
    [Trait("Lane", "faults: NATS is killed")]
    public async Task A_host_that_starts_while_the_server_is_away_is_healthy_when_it_is_there_without_a_send(NatsDelivery delivery)
    {
        await using var server = await StartServerAsync();
        await server.KillAsync();
        var options = NatsFixture.OptionsFor(server.Address);
        options.Delivery = delivery;
        await using var node = await NatsNode.StartAsync(options, 1);
        var away = await node.GetHealthAsync();

        await server.StartAsync();

        Assert.Equal(HealthStatus.Unhealthy, away.Status);
        Assert.Equal($"Neither sends nor receives. NATS at {server.Address.Authority} can't be reached. Check that the server runs there, and the address and login of Url.", away.Description);
        await node.WaitUntilHealthyAsync();
    }

    [Fact]
    [Trait("Lane", "faults: NATS is killed")]
    public async Task A_connection_that_is_lost_and_a_login_that_is_refused_name_the_setting()
    {
        await using var server = await StartServerAsync();
        await using var node = await NatsNode.StartAsync(NatsFixture.OptionsFor(server.Address), 1);

        await server.KillAsync();
        await Until.TrueAsync(async () => (await node.GetHealthAsync()).Description?.EndsWith("was lost. Check that the server runs there, and the address and login of Url.", StringComparison.Ordinal) == true);
        await server.StartAsync();
        await node.WaitUntilHealthyAsync();
        await server.ConfigureAsync("authorization { user: someone, password: secret-4711 }");
        await using var stranger = await NatsNode.StartAsync(NatsFixture.OptionsFor(server.Address), 2);

        const string refused = "refused the connection: Server error: Authorization Violation. Check that";
        Assert.Contains(refused, (await stranger.GetHealthAsync()).Description, StringComparison.Ordinal);
        // It was connected, and its client connects again by itself.
        await Until.TrueAsync(async () => (await node.GetHealthAsync()).Description?.Contains(refused, StringComparison.Ordinal) == true);
    }

    [Fact]
    public async Task A_server_without_JetStream_says_how_to_start_it()
    {
        await using var server = await StartServerAsync();
        // It was enabled by the command line, which the server forgets when it reads its file again.
        await server.ConfigureAsync("authorization { user: someone, password: secret-4711 }");
        var options = NatsFixture.OptionsFor(server.Address);
        options.Url = $"nats://someone:secret-4711@{server.Address.Authority}";

        await using var node = await NatsNode.StartAsync(options, 1);

        var health = await node.GetHealthAsync();
        Assert.Contains("JetStream is not enabled there (nats-server -js), the stream is gone, or the server is silent.", health.Description, StringComparison.Ordinal);
    }

    private static async Task<NatsServer> StartServerAsync()
    {
        Assert.SkipUnless(NatsServer.WhyMissing is null, NatsServer.WhyMissing ?? "");
        return await NatsServer.StartOwnAsync();
    }

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

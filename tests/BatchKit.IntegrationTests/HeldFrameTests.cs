using BatchKit.IntegrationTests.MassTransit;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Network;

namespace BatchKit.IntegrationTests;

/// <summary>What a receiver says while the next transport, or a handler, does not come to an end with a frame.</summary>
public sealed class HeldFrameTests(RabbitMqFixture fixture)
{
    private const int Behind = 50;

    // A broker that works delivers a frame between two checks, on a busy machine too; else the receiver starts again, and all frames wait.
    private static readonly TimeSpan CheckInterval = TimeSpan.FromSeconds(1);

    [Fact]
    public async Task Over_RabbitMQ_a_held_frame_and_a_lost_connection_are_faults_while_it_is_held()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var prefix = Some.Name("test");
        var receiving = RabbitMqSome.Options(server, proxy.Port, options => (options.Prefix, options.TopologyCheckInterval, options.Prefetch) = (prefix, CheckInterval, 1));
        await using var path = await RabbitMqPath.StartAsync(RabbitMqSome.Options(server, options => options.Prefix = prefix), receiving);

        await AssertSaysSoAsync(path.Output, path.NextHop, path.Arrived, proxy, () => path.Receiver.Fault);
    }

    [Fact]
    public async Task Over_MassTransit_a_held_frame_and_a_lost_connection_are_faults_while_it_is_held()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        ScriptedTransport? nextHop = null;
        await using var node = await MassTransitNode.StartReadyAsync(
            RabbitMqPath.Node,
            MassTransitSome.Settings(server, Some.Name("mt"), proxy.Port, options => (options.TopologyCheckInterval, options.Prefetch) = (CheckInterval, 1)),
            wrap: inner => nextHop = new ScriptedTransport(inner));

        await AssertSaysSoAsync(node.Output, nextHop!, node.Received, proxy, () => node.Receiver.Fault);
    }

    private static async Task AssertSaysSoAsync(OutputBuffer output, ScriptedTransport nextHop, CollectingTransport arrived, TcpProxy proxy, Func<string?> fault)
    {
        var held = nextHop.Stall(ignoresCancellation: true);
        foreach (var line in Some.Lines(Behind + 1))
        {
            output.Write(Some.Connection(RabbitMqPath.Node), Some.Bytes(line));
            await output.FlushAsync().WithinDeadline();
        }

        await held.EnteredAsync();
        await Until.TrueAsync(() => fault()?.Contains($"{Behind} more wait", StringComparison.Ordinal) == true);
        proxy.Stall();
        proxy.ResetAll();
        await Until.TrueAsync(() => fault() is { } lost && !lost.Contains("has had a frame", StringComparison.Ordinal));
        proxy.Resume();
        held.Release();

        await arrived.WaitForMessagesAsync(Behind + 1);
        await Until.TrueAsync(() => fault() is null);
        Assert.Equal(Some.Lines(Behind + 1), arrived.Texts);
    }
}

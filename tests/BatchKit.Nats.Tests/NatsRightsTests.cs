using BatchKit.Testing;
using BatchKit.TestServers.Nats;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging;

namespace BatchKit.Nats.Tests;

/// <summary>Core NATS where the server refuses what a user lacks the right to, which it tells by an error without an answer.</summary>
public sealed class NatsRightsTests : IDisposable
{
    private const int Receiving = 212;
    private const int Ended = 213;
    private const int MessageRefused = 3007;

    private readonly CollectingTransport _arrived = new();
    private readonly LogCollector _log = new();

    public void Dispose() => _log.Dispose();

    [Theory]
    [InlineData("subscribe: { deny: \"*.all\" }", "Permissions Violation for Subscription to \"{0}.all\"")]
    [InlineData("subscribe: { deny: \"*.node.1\" }", "Permissions Violation for Subscription to \"{0}.node.1\"")]
    public async Task A_subscription_that_the_server_refuses_is_the_fault_until_it_is_allowed(string rights, string reason)
    {
        await using var server = await StartAsync(User(rights));
        var options = OptionsFor(server);
        await using var receiver = Receiver(options);

        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await Until.TrueAsync(() => receiver.Fault?.Contains(string.Format(null, reason, options.Prefix), StringComparison.Ordinal) == true);
        await _log.WaitForAsync(Ended);
        await server.ConfigureAsync(User(""));

        await Until.TrueAsync(() => receiver.Fault is null);
        await AssertReceivesAsync(options);
    }

    [Fact]
    public async Task A_subscription_above_the_servers_limit_is_the_fault()
    {
        await using var server = await StartAsync("max_subscriptions: 1");
        await using var receiver = Receiver(OptionsFor(server));

        await receiver.StartAsync(CancellationToken.None).WithinDeadline();

        await Until.TrueAsync(() => receiver.Fault?.Contains("maximum subscriptions exceeded", StringComparison.OrdinalIgnoreCase) == true);
    }

    [Fact]
    public async Task A_subscription_whose_right_is_taken_away_is_the_fault()
    {
        await using var server = await StartAsync(User(""));
        await using var receiver = Receiver(OptionsFor(server));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await _log.WaitForAsync(Receiving);

        await server.ConfigureAsync(User("subscribe: { deny: \"*.all\" }"));

        await Until.TrueAsync(() => receiver.Fault?.Contains("Permissions Violation", StringComparison.Ordinal) == true);
    }

    [Fact]
    public async Task A_message_that_the_server_refuses_fails_and_is_the_fault_until_it_is_allowed()
    {
        await using var server = await StartAsync(User("publish: { deny: \"*.all\" }"));
        var options = OptionsFor(server);
        await using var node = await NatsNode.StartAsync(options, 1);

        await WriteUntilAsync(node.Output, static statistics => statistics.FailedMessages >= 3);
        await node.WriteAsync(node.Connection, "for a node");
        await node.Arrived.WaitForMessagesAsync(node.Connection, 1).WithinDeadline();
        var health = await node.GetHealthAsync();
        await server.ConfigureAsync(User(""));

        await WriteUntilAsync(node.Output, _ => node.Arrived.TextsFor(NatsNode.Room).Count > 0);
        await node.WaitUntilHealthyAsync();
        Assert.Equal(HealthStatus.Unhealthy, health.Status);
        Assert.Contains($"refused a message: Permissions Violation for Publish to \"{options.Prefix}.all\"", health.Description, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_refused_message_after_which_none_is_sent_is_the_fault_for_a_minute()
    {
        await using var server = await StartAsync(User("publish: { deny: \"*.all\" }"));
        var clock = new ManualTimeProvider();
        await using var node = await NatsNode.StartAsync(OptionsFor(server), 1, configure: services => services.AddSingleton<TimeProvider>(clock));
        await WriteUntilAsync(node.Output, static statistics => statistics.FailedMessages > 0);
        await Until.TrueAsync(() => node.Output.GetStatistics().PendingMessages == 0);

        clock.Advance(TimeSpan.FromSeconds(59));
        var before = await node.GetHealthAsync();

        // What the server says of the last ones may come after they are settled.
        await Until.TrueAsync(async () =>
        {
            clock.Advance(TimeSpan.FromSeconds(1));
            return (await node.GetHealthAsync()).Status == HealthStatus.Healthy;
        });
        Assert.Equal(HealthStatus.Unhealthy, before.Status);
    }

    [Fact]
    public async Task A_right_to_publish_that_is_taken_away_is_noticed_after_messages_were_taken()
    {
        await using var server = await StartAsync(User(""));
        await using var transport = new NatsTransport(OptionsFor(server), logger: new Logger<NatsTransport>(_log));
        await using var output = new OutputBuffer(transport);
        await WriteUntilAsync(output, static statistics => statistics.AcknowledgedMessages >= 3);

        await server.ConfigureAsync(User("publish: { deny: \"*.all\" }"));

        await WriteUntilAsync(output, static statistics => statistics.FailedMessages >= 3);
        await _log.WaitForAsync(MessageRefused);
    }

    [Fact]
    public async Task A_refused_message_is_logged_again_when_the_clock_that_was_handed_in_has_moved_on()
    {
        await using var server = await StartAsync(User("publish: { deny: \"*.all\" }"));
        var clock = new ManualTimeProvider();
        await using var transport = new NatsTransport(OptionsFor(server), timeProvider: clock, logger: new Logger<NatsTransport>(_log));
        await using var output = new OutputBuffer(transport);
        await WriteUntilAsync(output, static statistics => statistics.FailedMessages > 0);
        await _log.WaitForAsync(MessageRefused);

        clock.Advance(TimeSpan.FromMinutes(1));

        var before = output.GetStatistics().FailedMessages;
        await WriteUntilAsync(output, statistics => statistics.FailedMessages >= before + 20);
        Assert.Equal(2, _log.Count(MessageRefused));
    }

    private static string User(string rights) => $"authorization {{ users: [ {{ user: node, password: secret, permissions: {{ {rights} }} }} ] }}";

    private static NatsOptions OptionsFor(NatsServer server)
    {
        var options = NatsFixture.OptionsFor(new UriBuilder(server.Address) { UserName = "node", Password = "secret" }.Uri);
        options.Delivery = NatsDelivery.AtMostOnce;
        return options;
    }

    private static async Task<NatsServer> StartAsync(string configuration)
    {
        Assert.SkipUnless(NatsServer.WhyMissing is null, NatsServer.WhyMissing ?? "");
        return await NatsServer.StartOwnAsync(configuration);
    }

    private static Task WriteUntilAsync(OutputBuffer output, Func<OutputStatistics, bool> isOver) => Until.TrueAsync(() =>
    {
        output.Write(NatsNode.Room, "a");
        return isOver(output.GetStatistics());
    });

    private NatsReceiver Receiver(NatsOptions options) => new(options, new NodeNumber(1), new BatchReceiver(_arrived), logger: new Logger<NatsReceiver>(_log));

    private async Task AssertReceivesAsync(NatsOptions options)
    {
        await using var transport = new NatsTransport(options);
        await using var output = new OutputBuffer(transport);
        output.Write(NatsNode.Room, "for all");
        output.Write(OutputHandle.Connection(1, 1), "for a node");
        await _arrived.WaitForMessagesAsync(2).WithinDeadline();
    }
}

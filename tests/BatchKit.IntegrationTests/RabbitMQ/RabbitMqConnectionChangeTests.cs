using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.Transports;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using RabbitMQ.Client;
using static BatchKit.IntegrationTests.RabbitMQ.RabbitMqEnds;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>What the callback and the log are told of the connections.</summary>
public sealed class RabbitMqConnectionChangeTests(RabbitMqFixture fixture)
{
    private readonly CollectingTransport _arrived = new();

    [Fact]
    public async Task The_callback_hears_of_each_change_once_and_in_order_and_may_throw()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var changes = new ConnectionChanges();
        var prefix = Some.Name("test");
        var hosts = new RabbitMqTestHost();
        using var host = hosts.Build(prefix, options =>
        {
            RabbitMqSome.Configure(options, server, proxy.Port, prefix);
            options.FailFast = true;
            options.ConnectionChanged = changes.AddAndThrow;
        });
        await host.StartAsync().WithinDeadline();

        proxy.ResetAll();
        // The sender connects again when something is sent, or its health is asked for.
        await Until.TrueAsync(async () =>
        {
            await RabbitMqTestHost.CheckHealthAsync(host);
            return changes.All.Count >= 6;
        });

        foreach (var purpose in new[] { "sender", "receiver" })
            Assert.All(changes.AssertRestoredOnce(purpose), change => Assert.Contains(change.Target, $"RabbitMQ at {server.Host}:{proxy.Port} (virtual host /)", StringComparison.Ordinal));

        var health = await RabbitMqTestHost.WaitForHealthAsync(host, HealthStatus.Degraded);
        Assert.Contains("ConnectionChanged callback", health.Description, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_connection_that_ends_before_its_channel_is_ready_is_told_and_logged_as_lost()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var changes = new ConnectionChanges();
        var log = new LogCollector();
        var options = RabbitMqSome.Options(server, proxy.Port, options => options.ConnectionChanged = changes.Add);
        var unconfirmed = new CreateChannelOptions(publisherConfirmationsEnabled: false, publisherConfirmationTrackingEnabled: false);
        await using var connection = new RabbitMqConnection(options, "sender", unconfirmed, EndAsync, TimeProvider.System, log, metrics: null);

        await connection.OpenAsync(TestContext.Current.CancellationToken);

        Assert.Equal([BrokerConnectionState.Connected, BrokerConnectionState.Lost], changes.States);
        Assert.Equal([220, 222], log.Entries.Select(static entry => entry.Id));

        async Task EndAsync(IConnection opened, IChannel channel, CancellationToken cancellationToken)
        {
            var ended = new TaskCompletionSource();
            opened.ConnectionShutdownAsync += (_, _) =>
            {
                ended.TrySetResult();
                return Task.CompletedTask;
            };
            proxy.ResetAll();
            await ended.Task.WithinDeadline();
            await Until.TrueAsync(() => !channel.IsOpen);
        }
    }

    [Fact]
    public async Task A_connection_of_the_application_that_recovers_while_nothing_is_sent_is_told_as_restored()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var factory = new ConnectionFactory { Uri = server.Address, Port = proxy.Port, NetworkRecoveryInterval = TimeSpan.FromMilliseconds(20) };
        await using var connection = await factory.CreateConnectionAsync();
        var changes = new ConnectionChanges();
        var options = new RabbitMqOptions { Connection = connection, Prefix = Some.Name("test"), ConnectionChanged = changes.Add };
        await using var receiver = await StartAsync(RabbitMqSome.Options(server, over => over.Prefix = options.Prefix), _arrived);
        await using var transport = new RabbitMqTransport(options);
        await SendUntilRoutedAsync(transport);
        var recovered = new TaskCompletionSource();
        connection.RecoverySucceededAsync += (_, _) =>
        {
            recovered.TrySetResult();
            return Task.CompletedTask;
        };

        proxy.ResetAll();
        await recovered.Task.WithinDeadline();
        await SendUntilRoutedAsync(transport);

        await changes.WaitAsync(3);
        changes.AssertRestoredOnce("sender");
    }

    [Fact]
    public async Task A_stop_is_not_reported_as_a_lost_connection()
    {
        var changes = new ConnectionChanges();
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => options.ConnectionChanged = changes.Add);
        var receiver = await StartAsync(options, _arrived);
        var transport = new RabbitMqTransport(options);
        await SendLinesAsync(transport, count: 1);

        await receiver.DisposeAsync();
        await transport.DisposeAsync();

        Assert.Equal([BrokerConnectionState.Connected, BrokerConnectionState.Connected], changes.States);
    }
}

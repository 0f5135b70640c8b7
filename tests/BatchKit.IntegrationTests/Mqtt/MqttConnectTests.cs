using System.Diagnostics.Metrics;
using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Network;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>What the callback is told of connections, failing fast, a user in the address, and one connection for both directions.</summary>
public sealed class MqttConnectTests(MosquittoFixture fixture)
{
    private readonly MqttTestHost _hosts = new();
    private readonly string _topic = Some.Name("topic");

    [Fact]
    public async Task The_callback_hears_of_each_change_once_and_in_order_and_may_throw()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start("127.0.0.1", server.Port);
        var changes = new ConnectionChanges();
        using var host = _hosts.Build(Address(proxy), options =>
        {
            options.EnvelopePrefix = _topic;
            options.FailFast = true;
            options.ConnectionChanged = changes.AddAndThrow;
        });
        await host.StartAsync().WithinDeadline();

        proxy.ResetAll();
        await changes.WaitAsync(6);

        foreach (var purpose in new[] { "transport", "receiver" })
            Assert.All(changes.AssertRestoredOnce(purpose), change => Assert.Equal($"mqtt://127.0.0.1:{proxy.Port}", change.Target));

        var health = await MqttTestHost.WaitForHealthAsync(host, HealthStatus.Degraded);
        Assert.Contains("ConnectionChanged callback", health.Description, StringComparison.Ordinal);
        await host.StopAsync().WithinDeadline();
        Assert.Equal(6, changes.All.Count);
    }

    [Fact]
    public async Task The_instruments_show_each_connection_its_loss_and_its_return()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start("127.0.0.1", server.Port);
        using var host = _hosts.Build(new Uri($"mqtt://someone:s3cret@127.0.0.1:{proxy.Port}"), options => options.EnvelopePrefix = _topic);
        using var readings = new ConnectionReadings(host.Services.GetRequiredService<IMeterFactory>());
        await host.StartAsync().WithinDeadline();
        Assert.Equal(("Open", "Closed"), (readings.StateOf("receiver"), readings.StateOf("transport")));

        await readings.AssertOutageAsync(() =>
        {
            proxy.Stall();
            proxy.ResetAll();
        }, proxy.Resume, $"mqtt://127.0.0.1:{proxy.Port}", "mqtt", down: ["receiver"], open: ["receiver"]);
        await host.StopAsync().WithinDeadline();
        Assert.Equal("Closed", readings.StateOf("receiver"));
    }

    [Fact]
    public async Task A_host_that_fails_fast_does_not_start_without_its_broker()
    {
        var port = FreePort.Take(1)[0];
        using var host = _hosts.Build(new Uri($"mqtt://127.0.0.1:{port}"), options => (options.EnvelopePrefix, options.FailFast) = (_topic, true));

        var failed = await Assert.ThrowsAsync<IOException>(() => host.StartAsync().WithinDeadline());

        Assert.Contains($"mqtt://127.0.0.1:{port}", failed.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_call_that_fails_fast_throws_at_once_without_a_connection_and_when_it_is_lost()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start("127.0.0.1", server.Port);
        // Until it resumes, no attempt to connect succeeds.
        proxy.Stall();
        var changes = new ConnectionChanges();
        await using var transport = new MqttTransport(MqttSome.Options(Address(proxy), options => (options.FailFast, options.ConnectionChanged) = (true, changes.Add)));
        var messages = new[] { new MqttMessage(_topic, Some.Bytes("now")) };

        var refused = Assert.Throws<IOException>(() => transport.PublishManyAsync(messages).AsTask().GetAwaiter().GetResult());
        proxy.Resume();
        await changes.WaitAsync(1);
        var report = await transport.PublishManyAsync(messages).WithinDeadline();
        proxy.Stall();
        var carried = transport.PublishManyAsync(messages).AsTask();
        proxy.ResetAll();
        await Assert.ThrowsAsync<IOException>(() => carried.WithinDeadline());
        proxy.Resume();

        Assert.Contains(nameof(MqttOptions.FailFast), refused.Message, StringComparison.Ordinal);
        Assert.True(report.IsSuccess);
    }

    [Fact]
    public async Task A_user_and_a_password_in_the_address_log_in()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyMissing);
        await using var server = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { UserName = "somebody", Password = "p@ss" });
        await using var client = new MqttAccess("mqtt", server.Port, configure: options => options.Server = new Uri($"mqtt://somebody:p%40ss@127.0.0.1:{server.Port}"));

        await client.PublishAsync();

        Assert.DoesNotContain("p%40ss", client.Log.Text, StringComparison.Ordinal);
        Assert.DoesNotContain("somebody", client.Log.Text, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task One_connection_carries_both_directions_in_order_though_it_is_cut(MqttVersion version)
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start("127.0.0.1", server.Port);
        var arrived = new CollectingTransport();
        var options = Shared(proxy, version);
        await using var transport = new MqttTransport(options);
        await using var receiver = new MqttReceiver(transport, node: 1, new BatchReceiver(arrived, new BatchReceiverOptions { FilterDuplicates = false }));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        Assert.Null(receiver.Fault);

        for (var line = 0; line < 200; line++)
        {
            if (line is 100)
                proxy.ResetAll();
            Assert.True((await transport.PublishManyAsync(new[] { new MqttMessage(_topic, Some.Bytes($"line {line}")) }).WithinDeadline()).IsSuccess);
        }

        await Until.TrueAsync(() => arrived.Texts.Distinct().Count() == 200);
        Assert.Equal(Some.Lines(200), arrived.Texts.Distinct());
        Assert.Equal(2, proxy.AcceptedConnections);
    }

    [Fact]
    public async Task A_next_hop_may_wait_for_what_it_publishes_over_the_connection_that_it_receives_from()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start("127.0.0.1", server.Port);
        await using var transport = new MqttTransport(Shared(proxy, MqttVersion.V5));
        var answers = new AnsweringTransport(transport, $"{_topic}/answer");
        await using var receiver = new MqttReceiver(transport, node: 1, new BatchReceiver(answers, new BatchReceiverOptions { FilterDuplicates = false }));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();

        foreach (var line in Some.Lines(50))
            await transport.PublishManyAsync(new[] { new MqttMessage($"{_topic}/question", Some.Bytes(line)) }).WithinDeadline();

        await Until.TrueAsync(() => answers.Answers.Count == 50);
        Assert.Equal(Some.Lines(50), answers.Answers);
    }

    [Fact]
    public async Task A_host_shares_one_connection_and_a_stop_publishes_what_is_pending()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start("127.0.0.1", server.Port);
        var far = new CollectingTransport();
        await using var listener = new MqttReceiver(MqttSome.Below(server, _topic), node: 2, new BatchReceiver(far, new BatchReceiverOptions { FilterDuplicates = false }));
        await listener.StartAsync(CancellationToken.None).WithinDeadline();
        using var host = _hosts.Build(Address(proxy), options =>
        {
            options.SharesConnection = true;
            options.Subscriptions.Add(new MqttSubscription { Filter = $"{_topic}/#" });
        });
        await host.StartAsync().WithinDeadline();
        var output = host.Services.GetRequiredService<IOutputBuffer>();
        var handle = OutputHandle.Named(_topic);

        output.Write(handle, "line 0"u8);
        await _hosts.Arrived.WaitForMessagesAsync(1);
        output.BeginBufferingScope(handle);
        output.Write(handle, "line 1"u8);
        await host.StopAsync().WithinDeadline();

        await far.WaitForMessagesAsync(2);
        Assert.Equal(Some.Lines(2), far.Texts);
        Assert.Equal(1, proxy.AcceptedConnections);
    }

    [Fact]
    public async Task A_receiver_can_not_share_a_connection_that_is_not_shared_or_is_in_use()
    {
        var server = await fixture.GetAsync();
        await using var alone = new MqttTransport(MqttSome.Below(server, _topic));
        await using var shared = new MqttTransport(MqttSome.Below(server, _topic, options => options.SharesConnection = true));
        await shared.PublishManyAsync(new[] { new MqttMessage(_topic, Some.Bytes("early")) }).WithinDeadline();

        var notShared = Assert.Throws<InvalidOperationException>(() => new MqttReceiver(alone, node: 1, new BatchReceiver(new CollectingTransport())));
        var inUse = Assert.Throws<InvalidOperationException>(() => new MqttReceiver(shared, node: 1, new BatchReceiver(new CollectingTransport())));

        Assert.Contains(nameof(MqttOptions.SharesConnection), notShared.Message, StringComparison.Ordinal);
        Assert.Contains("before the transport sends", inUse.Message, StringComparison.Ordinal);
    }

    private static Uri Address(TcpProxy proxy) => new($"mqtt://127.0.0.1:{proxy.Port}");

    private MqttOptions Shared(TcpProxy proxy, MqttVersion version) => MqttSome.Options(Address(proxy), options =>
    {
        (options.Version, options.SharesConnection) = (version, true);
        options.Subscriptions.Add(new MqttSubscription { Filter = $"{_topic}/#" });
    });

    /// <summary>Answers each question over the transport, and waits until the broker has the answer.</summary>
    private sealed class AnsweringTransport(MqttTransport transport, string topic) : IBatchTransport
    {
        private readonly List<string> _answers = [];

        public IReadOnlyList<string> Answers
        {
            get
            {
                lock (_answers)
                    return [.. _answers];
            }
        }

        public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            foreach (var batch in batches.ToArray())
            {
                var isAnswer = batch.Handle == OutputHandle.Named(topic);
                foreach (var message in batch)
                {
                    var text = System.Text.Encoding.UTF8.GetString(message.Payload.Span);
                    if (!isAnswer)
                        Assert.True((await transport.PublishManyAsync(new[] { new MqttMessage(topic, Some.Bytes(text)) }, cancellationToken)).IsSuccess);
                    else
                        Keep(text);
                }
            }
        }

        private void Keep(string text)
        {
            lock (_answers)
                _answers.Add(text);
        }
    }
}

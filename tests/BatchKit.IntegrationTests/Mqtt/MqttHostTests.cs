using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Network;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>The transport and the receiver as a host runs them.</summary>
public sealed class MqttHostTests(MosquittoFixture fixture)
{
    private readonly MqttTestHost _hosts = new();
    private readonly string _prefix = Some.Name("frames");

    [Fact]
    public async Task One_scope_is_one_message_on_the_broker_in_envelope_mode()
    {
        using var host = await _hosts.StartAsync(await fixture.GetAsync(), _prefix);
        var output = host.Services.GetRequiredService<IOutputBuffer>();
        var handle = Some.Connection(node: 1);

        await using (output.BeginBufferingScope(handle))
        {
            foreach (var line in Some.Lines(999))
                output.Write(handle, Some.Bytes(line));
            output.Write(handle, "> "u8, new MessageHeader { Kind = MessageKind.Prompt });
        }

        await _hosts.Arrived.WaitForMessagesAsync(1000);
        await host.StopAsync().WithinDeadline();
        Assert.Equal([.. Some.Lines(999), "> "], _hosts.Arrived.Texts);
        Assert.Equal(1, host.Services.GetRequiredKeyedService<MqttReceiver>("").GetStatistics().ReceivedFrames);
    }

    [Fact]
    public async Task A_scope_over_topics_arrives_at_a_subscriber()
    {
        using var host = await _hosts.StartAsync(await fixture.GetAsync(), prefix: null,
            mqtt: options => options.Subscriptions.Add(new MqttSubscription { Filter = $"{_prefix}/#" }));
        var output = host.Services.GetRequiredService<IOutputBuffer>();
        var topics = Enumerable.Range(0, 20).Select(room => OutputHandle.Named($"{_prefix}/room/{room}")).ToArray();

        await using (output.BeginBufferingScope())
        {
            foreach (var line in Some.Lines(200))
                output.Write(topics[line.Length % topics.Length], Some.Bytes(line));
        }

        await _hosts.Arrived.WaitForMessagesAsync(200);
        foreach (var topic in topics)
            Assert.Equal(Some.Lines(200).Where(line => topics[line.Length % topics.Length] == topic), _hosts.Arrived.TextsFor(topic));
    }

    [Fact]
    public async Task Output_for_this_node_stays_in_process_and_a_group_reaches_both_nodes_once()
    {
        var server = await fixture.GetAsync();
        var local = new CollectingTransport();
        using var far = await _hosts.StartAsync(server, _prefix, node: 2);
        using var near = await _hosts.StartAsync(server, _prefix, node: 1, configure: builder => builder.UseLocal(_ => local), receives: local);
        var output = near.Services.GetRequiredService<IOutputBuffer>();

        output.Write(Some.Connection(node: 1), "near"u8);
        output.Write(Some.Group(), "group"u8);
        output.Write(Some.Connection(node: 2), "far"u8);
        await output.FlushAsync();
        await _hosts.Arrived.WaitForMessagesAsync(2);

        await near.StopAsync().WithinDeadline();
        Assert.Equal(["far", "group"], _hosts.Arrived.Texts.Order(StringComparer.Ordinal));
        Assert.Equal(["group", "near"], local.Texts.Order(StringComparer.Ordinal));
    }

    [Fact]
    public async Task With_a_local_route_messages_of_any_topics_are_received_all_the_same()
    {
        var server = await fixture.GetAsync();
        RequiredServer.SkipWhen(MosquittoProgram.WhyMissing);
        using var host = await _hosts.StartAsync(server, prefix: null, configure: builder => builder.UseLocal(_ => new CollectingTransport()),
            mqtt: options => options.Subscriptions.Add(new MqttSubscription { Filter = $"{_prefix}/#" }));

        await MosquittoProgram.PublishAsync(server, "", "-q", "1", "-t", $"{_prefix}/a", "-m", "here");

        await _hosts.Arrived.WaitForMessagesAsync(1);
    }

    [Fact]
    public async Task The_publisher_without_scopes_is_the_buffers_transport()
    {
        using var host = await _hosts.StartAsync(await fixture.GetAsync(), prefix: null,
            mqtt: options => options.Subscriptions.Add(new MqttSubscription { Filter = $"{_prefix}/#" }));
        var publisher = host.Services.GetRequiredService<IMqttPublisher>();

        var report = await publisher.PublishManyAsync(new[] { new MqttMessage($"{_prefix}/a", Some.Bytes("here")) });

        Assert.True(report.IsSuccess);
        await _hosts.Arrived.WaitForMessagesAsync(1);
        Assert.Equal(["here"], _hosts.Arrived.Texts);
    }

    [Fact]
    public async Task A_stop_sends_what_is_pending()
    {
        var server = await fixture.GetAsync();
        using var far = await _hosts.StartAsync(server, _prefix, node: 2);
        using var host = await _hosts.StartAsync(server, _prefix, node: 1, receives: new CollectingTransport());
        var output = host.Services.GetRequiredService<IOutputBuffer>();
        var handle = Some.Connection(node: 2);
        output.BeginBufferingScope(handle);
        foreach (var line in Some.Lines(10_000))
            output.Write(handle, Some.Bytes(line));

        await host.StopAsync().WithinDeadline();

        await _hosts.Arrived.WaitForMessagesAsync(10_000);
        Assert.Equal(Some.Lines(10_000), _hosts.Arrived.Texts);
        Assert.Equal(10_000, output.GetStatistics().AcknowledgedMessages);
    }

    [Fact]
    public async Task A_stop_with_the_broker_down_logs_what_was_left()
    {
        var port = FreePort.Take(1)[0];
        using var host = _hosts.Build(new Uri($"mqtt://127.0.0.1:{port}"), options => options.EnvelopePrefix = _prefix,
            output: buffer => buffer.DrainTimeout = TimeSpan.FromMilliseconds(100));
        await host.StartAsync().WithinDeadline();
        host.Services.GetRequiredService<IOutputBuffer>().Write(Some.Connection(node: 1), "left"u8);

        await host.StopAsync().WithinDeadline();

        Assert.Contains("1 messages not sent", _hosts.Log.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Health_says_that_the_broker_is_gone_and_that_it_is_back()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        await using var server = await MosquittoServer.StartOwnAsync();
        using var host = await _hosts.StartAsync(server, _prefix);
        await MqttTestHost.WaitForHealthAsync(host, HealthStatus.Healthy);

        await server.KillAsync();
        var gone = await MqttTestHost.WaitForHealthAsync(host, HealthStatus.Unhealthy);
        await server.StartAsync();
        await MqttTestHost.WaitForHealthAsync(host, HealthStatus.Healthy);

        Assert.Contains($":{server.Port}", gone.Description, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Health_is_degraded_while_the_transport_behind_the_receiver_fails()
    {
        var failing = new ScriptedTransport(_hosts.Arrived).Fail(sends: 1000);
        using var host = await _hosts.StartAsync(await fixture.GetAsync(), _prefix, receives: failing);

        host.Services.GetRequiredService<IOutputBuffer>().Write(Some.Connection(node: 1), "held"u8);

        var health = await MqttTestHost.WaitForHealthAsync(host, HealthStatus.Degraded);
        Assert.Contains("consecutive times", health.Description, StringComparison.Ordinal);
    }
}

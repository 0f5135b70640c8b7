using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Network;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>A node's number: leased where none is set, checked where one is, and free again when its process ends.</summary>
public sealed class MqttNodeTests(MosquittoFixture fixture)
{
    private const int ConnectionLost = 222;

    private readonly string _prefix = Some.Name("frames");

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task Two_hosts_with_default_numbers_chat_with_each_other(MqttVersion version)
    {
        var server = await fixture.GetAsync();
        var (ana, ben) = (new MqttChatter { Version = version }, new MqttChatter { Version = version });
        using var first = await ana.StartAsync(server.Address, _prefix);
        using var second = await ben.StartAsync(server.Address, _prefix);

        await Chatter.AssertChatAsync(ana, ben);
    }

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task A_number_that_is_set_and_taken_stops_the_start_with_an_error_that_names_both(MqttVersion version)
    {
        var server = await fixture.GetAsync();
        using var first = await new MqttChatter { Version = version }.StartAsync(server.Address, _prefix, node: 7);

        var refused = await Assert.ThrowsAsync<NodeTakenException>(() => new MqttChatter { Version = version }.StartAsync(server.Address, _prefix, node: 7));

        var process = $"'process {Environment.ProcessId} on {Environment.MachineName} ({AppDomain.CurrentDomain.FriendlyName})";
        Assert.StartsWith($"Node 7 is held by {process}", refused.Message, StringComparison.Ordinal);
        Assert.Contains($"so {process}", refused.Message, StringComparison.Ordinal);
        Assert.Contains("OutputBufferOptions.Node", refused.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Of_two_hosts_that_start_together_with_one_number_one_starts()
    {
        var server = await fixture.GetAsync();

        var starts = Enumerable.Range(0, 2).Select(_ => Task.Run(() => new MqttChatter().StartAsync(server.Address, _prefix, node: 7))).ToArray();
        await ((Task)Task.WhenAll(starts)).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing | ConfigureAwaitOptions.ContinueOnCapturedContext);

        using var started = await Assert.Single(starts, start => start.IsCompletedSuccessfully);
        Assert.IsType<NodeTakenException>(Assert.Single(starts, start => start.IsFaulted).Exception!.InnerException);
    }

    [Fact]
    public async Task A_number_is_free_again_when_its_host_has_stopped()
    {
        var server = await fixture.GetAsync();
        using var first = await new MqttChatter().StartAsync(server.Address, _prefix, node: 7);
        await first.StopAsync().WithinDeadline();

        using var second = await new MqttChatter().StartAsync(server.Address, _prefix, node: 7);
    }

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task A_number_is_free_again_when_its_host_was_killed(MqttVersion version)
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start("127.0.0.1", server.Port);
        using var killed = await new MqttChatter { Version = version }.StartAsync(new Uri($"mqtt://127.0.0.1:{proxy.Port}"), _prefix, node: 7);
        // To the broker the end of a process is the end of its connections.
        proxy.Stall();
        proxy.ResetAll();

        using var second = await new MqttChatter { Version = version }.StartAsync(server.Address, _prefix, node: 7);
    }

    [Fact]
    public async Task A_drawn_number_that_is_taken_is_replaced_by_another()
    {
        var server = await fixture.GetAsync();
        var drawn = NodeNumber.Draw();
        using var taken = await new MqttChatter().StartAsync(server.Address, _prefix, node: drawn.Candidate);

        var second = new MqttChatter { Number = drawn };
        using var host = await second.StartAsync(server.Address, _prefix);

        Assert.Equal(drawn.Value, second.Node);
        Assert.NotEqual(taken.Services.GetRequiredService<NodeNumber>().Value, second.Node);
    }

    [Fact]
    public async Task A_lost_connection_takes_its_number_back()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start("127.0.0.1", server.Port);
        var chatter = new MqttChatter();
        using var host = await chatter.StartAsync(new Uri($"mqtt://127.0.0.1:{proxy.Port}"), _prefix, node: 7);

        proxy.ResetAll();
        await chatter.Log.WaitForAsync(ConnectionLost);
        await MqttTestHost.WaitForHealthAsync(host, HealthStatus.Healthy);

        await Assert.ThrowsAsync<NodeTakenException>(() => new MqttChatter().StartAsync(server.Address, _prefix, node: 7));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_number_that_another_process_took_meanwhile_is_a_fault_until_it_is_free_and_receives_nothing(bool sharesConnection)
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start("127.0.0.1", server.Port);
        var late = new MqttChatter { SharesConnection = sharesConnection };
        using var first = await late.StartAsync(new Uri($"mqtt://127.0.0.1:{proxy.Port}"), _prefix, node: 7);

        proxy.Stall();
        proxy.ResetAll();
        using var other = await new MqttChatter().StartAsync(server.Address, _prefix, node: 7);
        proxy.Resume();
        var health = await MqttTestHost.WaitForHealthAsync(first, HealthStatus.Unhealthy, "Node 7 is held by");
        await other.StopAsync().WithinDeadline();
        await MqttTestHost.WaitForHealthAsync(first, HealthStatus.Healthy);

        Assert.Contains("can't be node 7 too", health.Description, StringComparison.Ordinal);
        await late.SayAsync("back");
        await late.Arrived.WaitForMessagesAsync(1);
        // A connection that the receiver shares is not opened while the number is taken.
        if (sharesConnection)
            Assert.Equal(2, first.Services.GetRequiredService<MqttTransport>().GetStatistics().Connects);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_restarted_broker_has_the_claim_again_when_the_holder_is_back(bool keepsMessages)
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        await using var server = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { Persistence = keepsMessages });
        using var host = await new MqttChatter().StartAsync(server.Address, _prefix, node: 7);

        await server.StopAsync();
        await MqttTestHost.WaitForHealthAsync(host, HealthStatus.Unhealthy);
        await server.StartAsync();
        await MqttTestHost.WaitForHealthAsync(host, HealthStatus.Healthy);

        await Assert.ThrowsAsync<NodeTakenException>(() => new MqttChatter().StartAsync(server.Address, _prefix, node: 7));
    }

    [Fact]
    public async Task Without_the_right_to_the_claims_the_host_receives_and_health_is_degraded()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        await using var server = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { Access = [$"topic readwrite {_prefix}/node/#", $"topic readwrite {_prefix}/all"] });
        var chatter = new MqttChatter { ConnectTimeout = TimeSpan.FromSeconds(1) };
        using var host = await chatter.StartAsync(server.Address, _prefix, node: 7);

        await chatter.SayAsync("hello");
        await chatter.Arrived.WaitForMessagesAsync(1);

        var health = await MqttTestHost.WaitForHealthAsync(host, HealthStatus.Degraded);
        Assert.Contains("Node 7 is not leased", health.Description, StringComparison.Ordinal);
        Assert.Contains($"{_prefix}/lease/7/+", health.Description, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_host_that_starts_without_the_broker_leases_its_number_when_the_broker_is_there()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        await using var server = await MosquittoServer.StartOwnAsync();
        await server.KillAsync();
        using var host = await new MqttChatter().StartAsync(server.Address, _prefix, node: 7);

        await server.StartAsync();
        await MqttTestHost.WaitForHealthAsync(host, HealthStatus.Healthy);

        await Assert.ThrowsAsync<NodeTakenException>(() => new MqttChatter().StartAsync(server.Address, _prefix, node: 7));
    }

    /// <summary>A host with one client, as a chat server has many.</summary>
    private sealed class MqttChatter : Chatter
    {
        private readonly MqttTestHost _hosts = new();

        public MqttVersion Version { get; init; } = MqttVersion.V5;

        public bool SharesConnection { get; init; }

        public TimeSpan ConnectTimeout { get; init; } = TimeSpan.FromSeconds(5);

        /// <summary>The number; null lets the container draw one.</summary>
        public NodeNumber? Number { get; init; }

        public LogCollector Log => _hosts.Log;

        public Task<IHost> StartAsync(Uri address, string prefix, int? node = null)
        {
            return StartAsync(_hosts.Build(address, mqtt =>
            {
                mqtt.EnvelopePrefix = prefix;
                mqtt.Version = Version;
                mqtt.ConnectTimeout = ConnectTimeout;
                mqtt.SharesConnection = SharesConnection;
            }, output => output.Node = node, builder =>
            {
                builder.UseLocal(_ => Arrived);
                if (Number is not null)
                    builder.Services.AddKeyedSingleton("", Number);
            }, Arrived));
        }
    }
}

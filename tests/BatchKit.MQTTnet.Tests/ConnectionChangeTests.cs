using BatchKit.MQTTnet.Tests.Support;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using MQTTnet;
using MQTTnet.Formatter;
using MQTTnet.Protocol;
using MQTTnet.Server;

namespace BatchKit.MQTTnet.Tests;

/// <summary>What the application hears of its own client's connections.</summary>
public sealed class ConnectionChangeTests : IAsyncLifetime
{
    private const int CallbackFailed = 2502;

    private readonly Lock _lock = new();
    private readonly List<ConnectionChange> _changes = [];
    private TestServer _server = null!;

    private IReadOnlyList<ConnectionChange> Changes
    {
        get
        {
            lock (_lock)
                return [.. _changes];
        }
    }

    public async ValueTask InitializeAsync() => _server = await TestServer.StartAsync();

    public ValueTask DisposeAsync() => _server.DisposeAsync();

    [Fact]
    public async Task A_client_that_connects_loses_its_connection_and_connects_again_reports_each_once()
    {
        var client = _server.MakeClient();
        using var transport = Make(client);

        await _server.ConnectAsync(client, "ana");
        await _server.Server.DisconnectClientAsync("ana", new MqttServerClientDisconnectOptions { ReasonCode = MqttDisconnectReasonCode.AdministrativeAction }).WithinDeadline();
        await WaitAsync(2);
        await _server.ConnectAsync(client, "ana");
        await WaitAsync(3);

        Assert.Equal([BrokerConnectionState.Connected, BrokerConnectionState.Lost, BrokerConnectionState.Restored], Changes.Select(change => change.State));
        Assert.All(Changes, change => Assert.Equal(("transport", $"{_server.EndPoint}"), (change.Purpose, change.Target)));
        Assert.NotNull(Changes[1].Reason);
        Assert.Null(Changes[2].Reason);
    }

    [Fact]
    public async Task A_lost_connection_is_logged_once_with_its_reason_which_sends_name_too()
    {
        var log = new LogCollector();
        var client = _server.MakeClient();
        using var transport = new MqttClientTransport(client, logger: new Logger<MqttClientTransport>(log));
        await _server.ConnectAsync(client, "ana");
        await _server.Server.DisconnectClientAsync("ana", new MqttServerClientDisconnectOptions { ReasonCode = MqttDisconnectReasonCode.AdministrativeAction }).WithinDeadline();
        await log.WaitForAsync(2503);

        var error = await Assert.ThrowsAsync<IOException>(() => transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("a"), Some.Producer(), 1, "one") }, TestContext.Current.CancellationToken).AsTask());
        await _server.ConnectAsync(client, "ana");

        Assert.Equal(
            $"The application's MQTT client lost its connection to {_server.EndPoint}. The broker ended the connection: AdministrativeAction. The application connects it again, because BatchKit does not.", error.Message);
        Assert.Equal((1, 1), (log.Count(2503), log.Count(2504)));
    }

    [Fact]
    public async Task A_connection_that_an_earlier_handler_opens_again_is_lost_and_restored()
    {
        var client = _server.MakeClient();
        client.DisconnectedAsync += occurrence => occurrence.ClientWasConnected ? _server.ConnectAsync(client, "ana") : Task.CompletedTask;
        using var transport = Make(client);

        await _server.ConnectAsync(client, "ana");
        await _server.Server.DisconnectClientAsync("ana", new MqttServerClientDisconnectOptions { ReasonCode = MqttDisconnectReasonCode.AdministrativeAction }).WithinDeadline();
        await WaitAsync(3);

        Assert.Equal([BrokerConnectionState.Connected, BrokerConnectionState.Lost, BrokerConnectionState.Restored], Changes.Select(change => change.State));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_lost_connection_is_reported_though_an_earlier_handler_keeps_its_end_to_itself(bool throws)
    {
        var client = _server.MakeClient();
        client.DisconnectedAsync += _ => throws ? throw new InvalidOperationException("mine") : new TaskCompletionSource().Task;
        using var transport = Make(client);
        await _server.ConnectAsync(client, "ana");
        await _server.Server.DisconnectClientAsync("ana", new MqttServerClientDisconnectOptions { ReasonCode = MqttDisconnectReasonCode.AdministrativeAction }).WithinDeadline();
        await Until.TrueAsync(() => !client.IsConnected);

        await Until.TrueAsync(async () =>
        {
            await Assert.ThrowsAsync<IOException>(() => transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("a"), Some.Producer(), 1, "one") }, TestContext.Current.CancellationToken).AsTask());
            return Changes.Count == 2;
        });

        Assert.Equal(BrokerConnectionState.Lost, Changes[1].State);
        Assert.Contains("DisconnectedAsync did not come", Changes[1].Reason, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_connection_that_the_application_ends_itself_is_not_reported()
    {
        var log = new LogCollector();
        var client = _server.MakeClient();
        using var transport = new MqttClientTransport(client, new MqttClientTransportOptions { ConnectionChanged = Add }, new Logger<MqttClientTransport>(log));
        await _server.ConnectAsync(client);

        // The client tells of it only after the call.
        await client.DisconnectAsync(new MqttClientDisconnectOptions()).WithinDeadline();
        await log.WaitForAsync(2505);
        await _server.ConnectAsync(client);

        Assert.Equal([BrokerConnectionState.Connected], Changes.Select(change => change.State));
        Assert.Equal(0, log.Count(2503));
    }

    [Fact]
    public async Task A_connection_that_the_broker_closes_without_a_word_is_reported_when_something_is_sent()
    {
        var log = new LogCollector();
        var client = _server.MakeClient();
        using var transport = new MqttClientTransport(client, new MqttClientTransportOptions { ConnectionChanged = Add }, new Logger<MqttClientTransport>(log));
        await _server.ConnectAsync(client, "ana", static builder => builder.WithProtocolVersion(MqttProtocolVersion.V311));
        await _server.Server.DisconnectClientAsync("ana", new MqttServerClientDisconnectOptions()).WithinDeadline();
        await log.WaitForAsync(2505);

        for (var send = 0; send < 2; send++)
        {
            var error = await Assert.ThrowsAsync<IOException>(() => transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("a"), Some.Producer(), 1, "one") }, TestContext.Current.CancellationToken).AsTask());
            Assert.Contains("The broker closed the connection, or the application ended it. The application connects it again", error.Message, StringComparison.Ordinal);
        }

        await _server.ConnectAsync(client, "ana");
        await WaitAsync(3);
        Assert.Equal([BrokerConnectionState.Connected, BrokerConnectionState.Lost, BrokerConnectionState.Restored], Changes.Select(change => change.State));
        Assert.Equal((1, 1), (log.Count(2503), log.Count(2504)));
    }

    [Fact]
    public async Task A_client_that_has_connected_before_is_connected_when_the_transport_is_created()
    {
        var client = await _server.ConnectAsync();

        using var transport = Make(client);

        Assert.Equal([BrokerConnectionState.Connected], Changes.Select(change => change.State));
    }

    [Fact]
    public async Task What_the_callback_throws_is_logged_and_stops_nothing()
    {
        using var log = new LogCollector();
        var client = _server.MakeClient();
        using var transport = new MqttClientTransport(
            client, new MqttClientTransportOptions { ConnectionChanged = _ => throw new InvalidOperationException("mine") }, new Logger<MqttClientTransport>(log));

        await _server.ConnectAsync(client);
        await transport.SendAsync(new[] { Some.Batch(Some.Group(), Some.Producer(), 1, "x") }, CancellationToken.None).AsTask().WithinDeadline();

        Assert.Equal(1, log.Count(CallbackFailed));
    }

    private MqttClientTransport Make(IMqttClient client) => new(client, new MqttClientTransportOptions { ConnectionChanged = Add });

    private void Add(ConnectionChange change)
    {
        lock (_lock)
            _changes.Add(change);
    }

    private Task WaitAsync(int changes) => Until.TrueAsync(() => Changes.Count >= changes);
}

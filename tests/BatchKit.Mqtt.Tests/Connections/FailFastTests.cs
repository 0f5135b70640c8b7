using System.Collections.Concurrent;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>A transport whose sends don't wait for a connection.</summary>
public sealed class FailFastTests : IDisposable
{
    private readonly FakeBroker _broker = new();

    public void Dispose() => _broker.Dispose();

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Who_is_told_of_a_connection_can_publish_over_it(bool sharesConnection)
    {
        var publishes = new ConcurrentDictionary<BrokerConnectionState, Task<MqttPublishReport>>();
        MqttTransport? transport = null;
        var options = ConnectionSome.Options(_broker);
        (options.FailFast, options.SharesConnection, options.ReconnectDelay) = (true, sharesConnection, TimeSpan.FromMilliseconds(10));
        options.ConnectionChanged = change =>
        {
            if (change.State != BrokerConnectionState.Lost)
                publishes[change.State] = PublishAsync(transport!);
        };
        await using var disposed = transport = new MqttTransport(options);
        var starting = transport.StartAsync(CancellationToken.None);

        foreach (var state in new[] { BrokerConnectionState.Connected, BrokerConnectionState.Restored })
        {
            using var client = await _broker.WelcomeAsync();
            await Until.TrueAsync(() => publishes.ContainsKey(state));
            Assert.Null(publishes[state].Exception);
            var publish = await client.ReadAsync();
            await client.WriteAsync(0x40, 2, publish[5], publish[6]);
            Assert.True((await publishes[state].WithinDeadline()).IsSuccess);
        }

        await starting.WithinDeadline();
    }

    private static async Task<MqttPublishReport> PublishAsync(MqttTransport transport) => await transport.PublishManyAsync(new[] { new MqttMessage("t", default) });
}

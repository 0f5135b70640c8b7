using System.Net;
using BatchKit.Diagnostics;
using BatchKit.Mqtt.Connections;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>Tests of connections, which are read asynchronously or on a thread of their own.</summary>
public abstract class ConnectionTests
{
    protected virtual bool MayBlock => false;

    private protected MqttConnector CreateConnector(MqttOptions options, TimeProvider? time = null, Func<string, CancellationToken, Task<IPAddress[]>>? resolve = null) =>
        new(options, "some-client", options.SessionExpiry, endsSession: false, options.Will, time ?? TimeProvider.System, new ObserverFaults(), MayBlock, resolve);

    /// <summary>A connection and the broker's end of it.</summary>
    private protected async Task<(MqttConnection Connection, FakeBrokerConnection Broker)> ConnectAsync(FakeBroker broker, TimeProvider? time = null, Action<MqttOptions>? configure = null)
    {
        var options = ConnectionSome.Options(broker);
        configure?.Invoke(options);
        var welcoming = broker.WelcomeAsync(options.Version);
        var connection = await CreateConnector(options, time).ConnectAsync(cleanStart: false, CancellationToken.None).WithinDeadline();
        return (connection, await welcoming);
    }
}

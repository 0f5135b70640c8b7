using System.Net;
using BatchKit.Diagnostics;
using BatchKit.Mqtt.Connections;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>Tests of connections, which are read asynchronously or on a thread of their own.</summary>
public abstract class ConnectionTests : IDisposable
{
    private readonly List<FakeBrokerConnection> _ends = [];

    protected virtual bool MayBlock => false;

    private protected FakeBroker Broker { get; } = new();

    private protected CancellationTokenSource Stop { get; } = new();

    public void Dispose()
    {
        _ends.ForEach(static end => end.Dispose());
        Broker.Dispose();
        Stop.Dispose();
        GC.SuppressFinalize(this);
    }

    private protected MqttConnector CreateConnector(MqttOptions options, TimeProvider? time = null, Func<string, CancellationToken, Task<IPAddress[]>>? resolve = null) =>
        new(options, "some-client", options.SessionExpiry, endsSession: false, options.Will, time ?? TimeProvider.System, new ObserverFaults(), MayBlock, resolve);

    /// <summary>A connection and the broker's end of it.</summary>
    private protected Task<(MqttConnection Connection, FakeBrokerConnection Broker)> ConnectAsync(TimeProvider? time = null, Action<MqttOptions>? configure = null)
    {
        var options = ConnectionSome.Options(Broker);
        configure?.Invoke(options);
        return ConnectAsync(CreateConnector(options, time), options.Version);
    }

    private protected async Task<(MqttConnection Connection, FakeBrokerConnection Broker)> ConnectAsync(MqttConnector connector, MqttVersion version = MqttVersion.V5)
    {
        var welcoming = Broker.WelcomeAsync(version);
        var connection = await connector.ConnectAsync(cleanStart: false, CancellationToken.None).WithinDeadline();
        var end = await welcoming;
        _ends.Add(end);
        return (connection, end);
    }

    /// <summary>A connection that runs until it is stopped, the broker's end of it, and how it ended.</summary>
    private protected async Task<(MqttConnection Connection, FakeBrokerConnection Broker, Task<string> Running)> RunAsync(
        RecordingHandler handler, TimeProvider? time = null, Action<MqttOptions>? configure = null)
    {
        var (connection, end) = await ConnectAsync(time, configure);
        return (connection, end, connection.RunAsync(handler, Stop.Token));
    }
}

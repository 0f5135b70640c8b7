using Microsoft.Extensions.Logging;
using MQTTnet;

namespace BatchKit.MQTTnet.Publishing;

/// <summary>Follows the connects of the application's client: which connection it is, and what the broker allows on it.</summary>
internal sealed class ClientWatch : IDisposable
{
    private readonly IMqttClient _client;
    private readonly PublishWindow _window;
    private readonly ILogger _logger;
    private readonly int _setting;
    private int _connection;
    private uint _maxPacketBytes = uint.MaxValue;

    public ClientWatch(IMqttClient client, PublishWindow window, ILogger logger)
    {
        _client = client;
        _window = window;
        _logger = logger;
        _setting = window.Size;
        client.ConnectingAsync += OnConnectingAsync;
        client.ConnectedAsync += OnConnectedAsync;
    }

    /// <summary>Another number once the client begins to connect again.</summary>
    public int Connection => Volatile.Read(ref _connection);

    public uint MaxPacketBytes => Volatile.Read(ref _maxPacketBytes);

    public void Dispose()
    {
        _client.ConnectingAsync -= OnConnectingAsync;
        _client.ConnectedAsync -= OnConnectedAsync;
    }

    // Before the new connection carries anything: what is left of a send then does not overtake what the old connection lost.
    private Task OnConnectingAsync(MqttClientConnectingEventArgs occurrence)
    {
        Interlocked.Increment(ref _connection);
        return Task.CompletedTask;
    }

    private Task OnConnectedAsync(MqttClientConnectedEventArgs occurrence)
    {
        // Zero is what MQTTnet makes of a limit that the broker did not give.
        int? receiveMaximum = occurrence.ConnectResult.ReceiveMaximum is > 0 and var limit ? limit : null;
        Volatile.Write(ref _maxPacketBytes, occurrence.ConnectResult.MaximumPacketSize is > 0 and var bytes ? bytes : uint.MaxValue);
        _window.Limit(receiveMaximum);
        if (receiveMaximum < _setting)
            Log.WindowLimited(_logger, receiveMaximum.Value, _setting);
        Log.ClientConnected(_logger, _window.Size, MaxPacketBytes);
        return Task.CompletedTask;
    }
}

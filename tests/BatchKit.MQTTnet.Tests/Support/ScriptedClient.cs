using System.Buffers;
using System.Text;
using MQTTnet;
using MQTTnet.Diagnostics.PacketInspection;

namespace BatchKit.MQTTnet.Tests.Support;

/// <summary>A client without a network: publishes stay open until the test answers them.</summary>
internal sealed class ScriptedClient : IMqttClient
{
    private readonly Lock _lock = new();
    private readonly List<ScriptedPublish> _publishes = [];

    public event Func<MqttClientConnectingEventArgs, Task>? ConnectingAsync;

    public event Func<MqttClientConnectedEventArgs, Task>? ConnectedAsync
    {
        add { }
        remove { }
    }

    public event Func<MqttApplicationMessageReceivedEventArgs, Task>? ApplicationMessageReceivedAsync
    {
        add { }
        remove { }
    }

    public event Func<MqttClientDisconnectedEventArgs, Task>? DisconnectedAsync
    {
        add { }
        remove { }
    }

    public event Func<InspectMqttPacketEventArgs, Task>? InspectPacketAsync
    {
        add { }
        remove { }
    }

    public bool IsConnected { get; set; } = true;

    public MqttClientOptions Options { get; } = new MqttClientOptionsBuilder().WithTcpServer("nowhere").WithProtocolVersion(global::MQTTnet.Formatter.MqttProtocolVersion.V500).Build();

    /// <summary>Answers at once when set.</summary>
    public Func<MqttApplicationMessage, Task<MqttClientPublishResult>>? Answer { get; set; }

    public IReadOnlyList<ScriptedPublish> Publishes
    {
        get
        {
            lock (_lock)
                return [.. _publishes];
        }
    }

    public Task BeginConnectingAsync() => ConnectingAsync?.Invoke(new MqttClientConnectingEventArgs(Options)) ?? Task.CompletedTask;

    public Task<MqttClientPublishResult> PublishAsync(MqttApplicationMessage applicationMessage, CancellationToken cancellationToken = default)
    {
        Assert.False(cancellationToken.CanBeCanceled, "A publish of MQTTnet's must not be cancelled.");
        var publish = new ScriptedPublish(applicationMessage);
        lock (_lock)
            _publishes.Add(publish);
        return Answer?.Invoke(applicationMessage) ?? publish.Task;
    }

    public Task<MqttClientConnectResult> ConnectAsync(MqttClientOptions options, CancellationToken cancellationToken = default) => throw new NotSupportedException();

    public Task DisconnectAsync(MqttClientDisconnectOptions options, CancellationToken cancellationToken = default) => throw new NotSupportedException();

    public Task PingAsync(CancellationToken cancellationToken = default) => throw new NotSupportedException();

    public Task SendEnhancedAuthenticationExchangeDataAsync(MqttEnhancedAuthenticationExchangeData data, CancellationToken cancellationToken = default) => throw new NotSupportedException();

    public Task<MqttClientSubscribeResult> SubscribeAsync(MqttClientSubscribeOptions options, CancellationToken cancellationToken = default) => throw new NotSupportedException();

    public Task<MqttClientUnsubscribeResult> UnsubscribeAsync(MqttClientUnsubscribeOptions options, CancellationToken cancellationToken = default) => throw new NotSupportedException();

    public void Dispose()
    {
    }
}

using BatchKit.Mqtt;
using BatchKit.Testing;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>A transport, the broker and a receiver with the same settings.</summary>
internal sealed class MqttPair(MqttTransport transport, MqttReceiver receiver, ScriptedTransport nextHop) : IAsyncDisposable
{
    public MqttTransport Transport { get; } = transport;

    public MqttReceiver Receiver { get; } = receiver;

    /// <summary>What the receiver hands batches to, which may be made to fail.</summary>
    public ScriptedTransport NextHop { get; } = nextHop;

    public static async Task<MqttPair> OpenAsync(MqttOptions options, CollectingTransport arrived)
    {
        var nextHop = new ScriptedTransport(arrived);
        return new MqttPair(new MqttTransport(options), await MqttEnds.StartAsync(options, nextHop), nextHop);
    }

    public async ValueTask DisposeAsync()
    {
        await Transport.DisposeAsync();
        await Receiver.DisposeAsync();
    }
}

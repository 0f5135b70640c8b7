using MQTTnet;
using MQTTnet.Adapter;
using MQTTnet.Channel;
using MQTTnet.Diagnostics.Logger;
using MQTTnet.Formatter;
using MQTTnet.Implementations;

namespace BatchKit.MQTTnet.Tests.Support;

/// <summary>Makes clients over TCP, stock or with batched writes, whose socket writes are recorded.</summary>
internal sealed class RecordingFactory(bool isBatched) : IMqttClientAdapterFactory
{
    private RecordingChannel? _channel;

    public RecordingChannel Channel => _channel ?? throw new InvalidOperationException("The client has not connected.");

    public IMqttChannelAdapter CreateClientAdapter(MqttClientOptions options, MqttPacketInspector packetInspector, IMqttNetLogger logger)
    {
        _channel = new RecordingChannel(new MqttTcpChannel(options));
        return isBatched ? new BatchedWriteClientAdapterFactory().CreateAdapter(_channel, options, packetInspector, logger) : MakeStock(_channel, options, packetInspector, logger);
    }

    // As MQTTnet's own factory does.
    private static MqttChannelAdapter MakeStock(IMqttChannel channel, MqttClientOptions options, MqttPacketInspector packetInspector, IMqttNetLogger logger)
    {
        var formatter = new MqttPacketFormatterAdapter(options.ProtocolVersion, new MqttBufferWriter(options.WriterBufferSize, options.WriterBufferSizeMax));
        return new MqttChannelAdapter(channel, formatter, logger) { AllowPacketFragmentation = options.AllowPacketFragmentation, PacketInspector = packetInspector };
    }
}

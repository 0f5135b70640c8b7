using System.Net.Sockets;
using BatchKit.MQTTnet.Writing;
using MQTTnet;
using MQTTnet.Adapter;
using MQTTnet.Channel;
using MQTTnet.Diagnostics.Logger;
using MQTTnet.Formatter;
using MQTTnet.Implementations;

namespace BatchKit.MQTTnet;

/// <summary>
/// Makes MQTTnet clients whose packets leave together: <c>new MqttClientFactory().CreateMqttClient(new BatchedWriteClientAdapterFactory())</c>. The stock client writes each packet by itself, its
/// head and its payload apart.
/// </summary>
/// <remarks>
/// It wraps MQTTnet's own channels, so that TLS and WebSocket work as they do. On Linux it opens plain TCP by itself, to have each read acknowledged at once (TCP_QUICKACK): a broker that
/// leaves Nagle's algorithm on, as Mosquitto does by default, otherwise holds PUBACKs back for up to 40 ms; over TLS and WebSocket, set <c>set_tcp_nodelay true</c> there. Publishes of one <see cref="MqttClientTransport.SendAsync"/> are gathered and leave in one write, up to 256 KiB;
/// others with what else waits meanwhile. <b>A publish at QoS 0 then ends before its bytes are written</b>: when the connection is lost, what was gathered is lost with it, as is what lies in
/// the socket's buffer. At QoS 1 nothing changes but the speed. Thread-safe.
/// </remarks>
public sealed partial class BatchedWriteClientAdapterFactory : IMqttClientAdapterFactory
{
    // Then a write waits, as it does at a socket whose buffer is full.
    private const int MaxPendingBytes = 1024 * 1024;

    private readonly TimeProvider _timeProvider;

    /// <summary>Makes a factory.</summary>
    /// <param name="timeProvider">The time; the system's when null.</param>
    public BatchedWriteClientAdapterFactory(TimeProvider? timeProvider = null) => _timeProvider = timeProvider ?? TimeProvider.System;

    /// <inheritdoc/>
    public IMqttChannelAdapter CreateClientAdapter(MqttClientOptions options, MqttPacketInspector packetInspector, IMqttNetLogger logger)
    {
        ArgumentNullException.ThrowIfNull(options);
        IMqttChannel channel = options.ChannelOptions switch
        {
            MqttClientTcpOptions tcp when IsPlain(tcp) => new QuickAckTcpChannel(tcp),
            MqttClientTcpOptions => new MqttTcpChannel(options),
            MqttClientWebSocketOptions webSocketOptions => new MqttWebSocketChannel(webSocketOptions),
            _ => throw new NotSupportedException($"There is no channel for {options.ChannelOptions?.GetType().Name ?? "no channel options"}."),
        };
        return CreateAdapter(channel, options, packetInspector, logger);
    }

    private static bool IsPlain(MqttClientTcpOptions options)
    {
        var hasProvider = false;
        FindStreamProvider(options, ref hasProvider);
        return OperatingSystem.IsLinux() && options.ProtocolType == ProtocolType.Tcp && options.TlsOptions?.UseTls != true && !hasProvider;
    }

    // MQTTnet before 5.2 has none.
    static partial void FindStreamProvider(MqttClientTcpOptions options, ref bool hasProvider);

    internal MqttChannelAdapter CreateAdapter(IMqttChannel channel, MqttClientOptions options, MqttPacketInspector packetInspector, IMqttNetLogger logger)
    {
        var formatter = new MqttPacketFormatterAdapter(options.ProtocolVersion, new MqttBufferWriter(options.WriterBufferSize, options.WriterBufferSizeMax));
        return new MqttChannelAdapter(new BatchedWriteChannel(channel, MaxPendingBytes, _timeProvider), formatter, logger)
        {
            AllowPacketFragmentation = options.AllowPacketFragmentation,
            PacketInspector = packetInspector,
        };
    }
}

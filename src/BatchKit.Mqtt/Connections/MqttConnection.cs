using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Connections;

/// <summary>An established connection: its CONNECT was accepted.</summary>
internal sealed class MqttConnection : IAsyncDisposable
{
    /// <summary>The broker's limits.</summary>
    public ConnackPacket Limits => throw new NotSupportedException();

    public MqttVersion Version => throw new NotSupportedException();

    /// <summary>The broker for a person, without secrets.</summary>
    public string Target => throw new NotSupportedException();

    /// <summary>Starts writing; once.</summary>
    /// <param name="source">What has packets to write beside those that are appended; may be null.</param>
    public PacketOutput Open(IPacketSource? source) => throw new NotSupportedException();

    /// <summary>Reads packets, and keeps the connection alive, until it ends, whoever ends it. When it completes, nothing of the handler or source is called any more.</summary>
    /// <param name="handler">Gets the packets.</param>
    /// <param name="cancellationToken">Says goodbye and ends it.</param>
    /// <returns>Why it ended, for a person; a sentence.</returns>
    public Task<string> RunAsync(IPacketHandler handler, CancellationToken cancellationToken) => throw new NotSupportedException();

    public ValueTask DisposeAsync() => throw new NotSupportedException();
}

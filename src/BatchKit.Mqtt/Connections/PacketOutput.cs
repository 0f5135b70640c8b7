namespace BatchKit.Mqtt.Connections;

/// <summary>Writes a connection's packets: what was appended (pings, acknowledgements), then what the source has, all in one write. One write at a time.</summary>
/// <remarks>Whoever has something calls <see cref="Flush"/>. That writes on the caller's thread as long as the network takes it at once, and goes on by itself when it does not.</remarks>
internal sealed class PacketOutput
{
    /// <summary>Makes an output over a stream that is the connection's.</summary>
    public PacketOutput(Stream stream, IPacketSource? source) => throw new NotSupportedException();

    /// <summary>Completes with the error that ended writing. Never succeeds.</summary>
    public Task Failed => throw new NotSupportedException();

    /// <summary>Queues a whole small packet for the next write, ahead of the source's.</summary>
    public void Append(ReadOnlySpan<byte> packet) => throw new NotSupportedException();

    /// <summary>Writes what there is, unless a write is under way, which then goes on with it.</summary>
    public void Flush() => throw new NotSupportedException();

    /// <summary>Takes nothing more, and completes when the write under way has ended. The source is not called after that.</summary>
    public Task CloseAsync() => throw new NotSupportedException();
}

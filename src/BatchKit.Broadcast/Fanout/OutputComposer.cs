using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Fanout;

/// <summary>Puts what one connection gets in one send behind each other, so that it leaves in one write. For one thread.</summary>
internal sealed class OutputComposer(SendQueueLimits limits)
{
    private readonly byte[] _bytes = new byte[limits.MaxRunBytes];
    private int _length;
    private int _messages;

    /// <summary>Adds messages.</summary>
    /// <param name="connection">Gets what no longer fits.</param>
    /// <param name="run">The messages.</param>
    /// <param name="tally">Counts them.</param>
    /// <param name="before">Bytes that go before them, and are counted with them.</param>
    public void Add(ClientConnection connection, in OutputRun run, ref DeliveryTally tally, ReadOnlySpan<byte> before = default)
    {
        var length = before.Length + run.Bytes.Length;
        if (_length + length > _bytes.Length || _messages + run.Messages > limits.MaxRunMessages)
            Flush(connection, ref tally);
        if (length > _bytes.Length)
        {
            connection.Send(before.IsEmpty ? run : new OutputRun([.. before, .. run.Bytes], run.Messages), ref tally);
            return;
        }

        before.CopyTo(_bytes.AsSpan(_length));
        _length += before.Length;
        run.Bytes.CopyTo(_bytes.AsSpan(_length));
        _length += run.Bytes.Length;
        _messages += run.Messages;
    }

    /// <summary>Adds bytes behind messages that have not left yet, counted with them.</summary>
    /// <returns>False when there is no such message, or no room.</returns>
    public bool TryAppend(ReadOnlySpan<byte> bytes)
    {
        if (_messages == 0 || _length + bytes.Length > _bytes.Length)
            return false;
        bytes.CopyTo(_bytes.AsSpan(_length));
        _length += bytes.Length;
        return true;
    }

    public void Flush(ClientConnection connection, ref DeliveryTally tally)
    {
        if (_length == 0 && _messages == 0)
            return;
        var run = new OutputRun(_bytes.AsSpan(0, _length), _messages);

        // Empty before the connection gets it: whatever fails there, the next connection gets none of it.
        (_length, _messages) = (0, 0);
        connection.Send(run, ref tally);
    }
}

using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Fanout;

/// <summary>Puts what one connection gets in one send behind each other, so that it leaves in one write. For one thread.</summary>
internal sealed class OutputComposer(SendQueueLimits limits)
{
    private readonly byte[] _bytes = new byte[limits.MaxRunBytes];
    private int _length;
    private int _messages;

    public void Add(ClientConnection connection, in OutputRun run, ref DeliveryTally tally)
    {
        if (_length + run.Bytes.Length > _bytes.Length || _messages + run.Messages > limits.MaxMessages)
            Flush(connection, ref tally);
        if (run.Bytes.Length > _bytes.Length)
        {
            connection.Send(run, ref tally);
            return;
        }

        run.Bytes.CopyTo(_bytes.AsSpan(_length));
        _length += run.Bytes.Length;
        _messages += run.Messages;
    }

    public void Flush(ClientConnection connection, ref DeliveryTally tally)
    {
        if (_length == 0 && _messages == 0)
            return;
        connection.Send(new OutputRun(_bytes.AsSpan(0, _length), _messages), ref tally);
        (_length, _messages) = (0, 0);
    }
}

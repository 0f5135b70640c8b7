using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Telnet;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Fanout;

/// <summary>One batch on its way to any number of connections: encoded on first need, once for each wire format.</summary>
internal sealed class BatchDelivery(SendQueueLimits limits)
{
    // Guards what is encoded and not ready yet.
    private readonly Lock _lock = new();
    private readonly EncodedBatch[] _encoded = new EncodedBatch[WireFormat.Count];
    private readonly bool[] _isReady = new bool[WireFormat.Count];
    private readonly Exclusions _exclusions = new();
    private MessageBatch? _batch;
    private bool _isShared;

    /// <param name="batch">Stays valid until <see cref="Release"/>.</param>
    /// <param name="isShared">True when several connections get it, so that those that must queue it share one copy.</param>
    public void Begin(MessageBatch batch, bool isShared)
    {
        _batch = batch;
        _isShared = isShared;
        if (batch.HasHeaders)
            _exclusions.Read(batch.Headers);
    }

    /// <inheritdoc cref="Send(ClientConnection, int, bool, OutputComposer, ref DeliveryTally)"/>
    public void Send(ClientConnection connection, bool isAlone, OutputComposer composer, ref DeliveryTally tally) =>
        Send(connection, _batch!.Count, isAlone, composer, ref tally);

    /// <summary>Gives one connection the batch's messages, or those before a place in it, at once or by way of the composer.</summary>
    /// <param name="connection">Gets them.</param>
    /// <param name="messages">How many of the batch's messages, from the first.</param>
    /// <param name="composer">Flushed by the caller when the connection has everything.</param>
    /// <param name="isAlone">True when the connection gets nothing else in this send.</param>
    /// <param name="tally">Counts them.</param>
    public void Send(ClientConnection connection, int messages, bool isAlone, OutputComposer composer, ref DeliveryTally tally)
    {
        var encoded = Get(connection.Format);
        var isWhole = messages == _batch!.Count && encoded.IsOneRun(limits) && !_exclusions.Contains(connection.Handle);
        if (connection.Prompts is { } prompts)
            SendEach(connection, prompts, encoded, messages, composer, ref tally);
        else if (isWhole && isAlone)
            connection.Send(encoded.Whole, ref tally);
        else if (isWhole)
            composer.Add(connection, encoded.Whole, ref tally);
        else
            SendParts(connection, encoded, messages, composer, ref tally);
    }

    public void Release()
    {
        for (var index = 0; index < _isReady.Length; index++)
        {
            if (_isReady[index])
                _encoded[index].Release();
        }

        Array.Clear(_isReady);
        _exclusions.Clear();
        _batch = null;
    }

    private EncodedBatch Get(WireFormat format)
    {
        if (Volatile.Read(ref _isReady[format.Index]))
            return _encoded[format.Index];
        lock (_lock)
        {
            var encoded = _encoded[format.Index] ??= new EncodedBatch();
            if (_isReady[format.Index])
                return encoded;
            if (_isShared || !IsAsItIs(format))
                encoded.Encode(_batch!, format);
            else
                encoded.Borrow(_batch!);
            Volatile.Write(ref _isReady[format.Index], true);
            return encoded;
        }
    }

    private bool IsAsItIs(WireFormat format) =>
        !_batch!.HasHeaders && (format == WireFormat.Raw || (format.IsTelnet && TelnetEncoder.IsPlain(format, _batch.Payload.Span)));

    private void SendParts(ClientConnection connection, EncodedBatch encoded, int messages, OutputComposer composer, ref DeliveryTally tally)
    {
        for (var first = 0; first < messages;)
        {
            var end = EndOfIncluded(first, messages, connection);
            if (end > first)
            {
                end = encoded.EndOfRun(first, end, limits);
                composer.Add(connection, encoded.GetRun(first, end), ref tally);
            }

            first = Math.Max(end, first + 1);
        }
    }

    private void SendEach(
        ClientConnection connection, TelnetPrompts prompts, EncodedBatch encoded, int messages, OutputComposer composer, ref DeliveryTally tally)
    {
        for (var index = 0; index < messages; index++)
        {
            var run = encoded.GetRun(index, index + 1);
            if (run.Messages > 0 && !_exclusions.Contains(index, connection.Handle))
                prompts.Add(connection, run, _batch![index], composer, ref tally);
        }
    }

    /// <summary>The place of the next message that the connection is excluded from; the first one's own when it is excluded from that.</summary>
    private int EndOfIncluded(int first, int messages, ClientConnection connection)
    {
        if (!_exclusions.Contains(connection.Handle))
            return messages;
        var end = first;
        while (end < messages && !_exclusions.Contains(end, connection.Handle))
            end++;
        return end;
    }
}

using System.Net.Sockets;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Receiving;

/// <summary>Reads a TCP or telnet client: waits without a buffer, then reads as long as there is something, and hands on the records of each read.</summary>
internal sealed class ByteInbound(ClientConnection connection, IByteSource source, IRecordReader reader, BroadcastOptions options, ILogger logger) : IInbound
{
    // After so many reads without a wait it is the others' turn: a client may send faster than it is served.
    private const int MaxReadsInARow = 16;

    private readonly ReceiveBuffer _buffer = new(options.MaxRecordBytes);
    private bool _isBroken;

    /// <summary>The bytes that are held for what was received.</summary>
    public int HeldBytes => _buffer.HeldBytes;

    public async Task<InboundEnd> RunAsync(InboundDelivery delivery, CancellationToken cancellationToken)
    {
        try
        {
            return await ReadAsync(delivery, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            _buffer.Release();
        }
    }

    private async Task<InboundEnd> ReadAsync(InboundDelivery delivery, CancellationToken cancellationToken)
    {
        var (isFilled, inARow) = (false, 0);
        while (true)
        {
            int read;
            try
            {
                if (!isFilled)
                {
                    _buffer.Rest();
                    var waiting = source.WaitAsync();
                    inARow = waiting.IsCompleted ? inARow : 0;
                    await waiting.ConfigureAwait(false);
                }

                var free = _buffer.GetFree();
                read = await source.ReadAsync(free).ConfigureAwait(false);
                isFilled = read == free.Length;
            }
            catch (Exception failure) when (failure is IOException or SocketException or ObjectDisposedException or OperationCanceledException)
            {
                return InboundEnd.Lost;
            }

            if (read == 0)
                return _isBroken ? InboundEnd.ProtocolError : InboundEnd.Finished;
            if (read < 0)
                continue;
            _buffer.Advance(read);
            await HandOnAsync(read, delivery, cancellationToken).ConfigureAwait(false);
            if (++inARow < MaxReadsInARow)
                continue;
            inARow = 0;
            await Task.Yield();
        }
    }

    private async ValueTask HandOnAsync(int read, InboundDelivery delivery, CancellationToken cancellationToken)
    {
        // A client that is being closed is read on, so that its last lines are not lost to a reset, but not heard.
        if (!delivery.TryNote(read) || connection.Closing.IsCompleted)
        {
            _buffer.Consume(_buffer.Length);
            return;
        }

        var batch = RecordBatch.Rent();
        var isMore = true;
        while (isMore)
        {
            var isValid = reader.TryRead(_buffer.Unread, batch.Records, out var consumed);
            isMore = batch.Records.Count >= RecordBatch.MaxRecords && isValid;
            if (batch.Records.Count > 0)
                await delivery.DeliverAsync(batch.Hand(), cancellationToken).ConfigureAwait(false);
            batch.Clear();
            _buffer.Consume(consumed);
            if (!isValid)
                Refuse(reader.Failure ?? "what its protocol forbids");
        }

        batch.Return();
        if (_buffer.IsTooLong)
            Refuse($"a record above {options.MaxRecordBytes} bytes");
    }

    private void Refuse(string reason)
    {
        _buffer.Consume(_buffer.Length);
        _isBroken = true;
        Log.ProtocolBroken(logger, connection, reason);
        connection.Close(DisconnectReason.ProtocolError);
    }
}

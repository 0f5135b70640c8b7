using System.Buffers;
using System.Net.Sockets;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Receiving;

/// <summary>Reads a TCP or telnet client: waits without a buffer, then reads while there are bytes, and delivers the records of each read. It owns the reader.</summary>
internal sealed class ByteInbound(ClientConnection connection, IByteSource source, IRecordReader reader, BroadcastOptions options, ILogger logger) : IInbound
{
    private readonly ReceiveBuffer _buffer = new(options.MaxRecordBytes);
    private bool _isBroken;

    /// <summary>The size of the receive buffer in bytes; 0 while it has none.</summary>
    public int HeldBytes => _buffer.HeldBytes;

    // One method and not two: while a client is silent, each would hold a state machine of 130 bytes and more.
    public async Task<InboundEnd> RunAsync(InboundDelivery delivery, CancellationToken cancellationToken)
    {
        using var use = new ReadUse(this);
        var isFilled = false;
        while (true)
        {
            int read;
            var hasWaited = false;
            try
            {
                if (!isFilled)
                {
                    _buffer.Shrink();
                    var waiting = source.WaitAsync();
                    hasWaited = !waiting.IsCompleted;
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
            await DeliverAsync(read, delivery, cancellationToken).ConfigureAwait(false);
            await delivery.WhenMayReadAsync(hasWaited, ReceiveBuffer.BusyBytes).ConfigureAwait(false);
        }
    }

    private async ValueTask DeliverAsync(int read, InboundDelivery delivery, CancellationToken cancellationToken)
    {
        // Input of a client that is being closed is read, so that no reset destroys its last output, but discarded.
        if (!delivery.TryNote(read) || connection.IsClosing)
        {
            _buffer.Consume(_buffer.Length);
            return;
        }

        var batch = RecordBatch.Rent();
        var isMore = true;
        while (isMore)
        {
            var isValid = reader.TryRead(_buffer.Unread, batch.Records, out var consumed);
            isMore = isValid && (batch.Records.Count >= RecordBatch.MaxRecords || reader.HasMore);
            if (batch.Records.Count > 0)
                await delivery.DeliverAsync(batch.AsMemory(), cancellationToken).ConfigureAwait(false);
            batch.Clear();
            _buffer.Consume(consumed);
            if (!isValid)
                Refuse(reader.Failure ?? "input that its protocol forbids");
            else if (reader.AddedBytes > 0)
                isMore = await TryHoldAsync(reader.AddedBytes, delivery).ConfigureAwait(false) && isMore;
        }

        batch.Return();
        if (_buffer.IsTooLong)
            Refuse($"a record above {options.MaxRecordBytes} bytes");
    }

    private void Release()
    {
        _buffer.Release();
        (reader as IDisposable)?.Dispose();
    }

    /// <summary>Counts what was inflated, and waits until more may be: a few bytes may be inflated to a thousand times their size.</summary>
    /// <returns>False when the connection is being closed, and the rest was discarded.</returns>
    private async ValueTask<bool> TryHoldAsync(int addedBytes, InboundDelivery delivery)
    {
        if (delivery.TryNote(addedBytes))
            await delivery.WhenMayReadAsync(hasWaited: false, addedBytes).ConfigureAwait(false);
        if (!connection.IsClosing)
            return true;
        _buffer.Consume(_buffer.Length);
        return false;
    }

    private void Refuse(string reason)
    {
        _buffer.Consume(_buffer.Length);
        _isBroken = true;
        Log.ProtocolBroken(logger, connection, reason);
        connection.Close(DisconnectReason.ProtocolError);
    }

    /// <summary>Releases the buffer and the reader at the end of a method.</summary>
    private readonly struct ReadUse(ByteInbound inbound) : IDisposable
    {
        public void Dispose() => inbound.Release();
    }
}

/// <summary>Bytes that one client sent and that are not consumed yet. It holds no memory while it is empty and the client is silent.</summary>
internal sealed class ReceiveBuffer(int maxRecordBytes)
{
    /// <summary>The size for a busy client: a smaller buffer makes it cost more system calls.</summary>
    public const int BusyBytes = 64 * 1024;

    // The most that may delimit a record, such as its length prefix or its line end.
    private const int MaxFramingBytes = 256;

    private byte[]? _array;
    private int _start;
    private int _end;

    public Memory<byte> Unread => _array.AsMemory(_start, Length);

    public int Length => _end - _start;

    /// <summary>The size of its array in bytes; 0 while it has none.</summary>
    public int HeldBytes => _array?.Length ?? 0;

    /// <summary>True when the incomplete record is longer than any record may be.</summary>
    public bool IsTooLong => Length > (long)maxRecordBytes + MaxFramingBytes;

    /// <summary>Returns memory to receive into; never empty unless <see cref="IsTooLong"/>.</summary>
    public Memory<byte> GetFree()
    {
        var wanted = Math.Max(BusyBytes, Length * 2L);
        var size = (int)Math.Min(wanted, Math.Max(BusyBytes, (long)maxRecordBytes + MaxFramingBytes + 1));
        if (_array is null || (_array.Length < size && (_array.Length < BusyBytes || Length == _array.Length)))
            MoveTo(size);
        else if (_start > 0)
            MoveToStart();
        return _array.AsMemory(_end);
    }

    public void Advance(int bytes) => _end += bytes;

    public void Consume(int bytes)
    {
        _start += bytes;
        if (_start == _end)
            _start = _end = 0;
    }

    /// <summary>Shrinks to the bytes that it holds, before a wait for its client.</summary>
    public void Shrink()
    {
        if (Length == 0)
            Release();
        else if (_array!.Length >= BusyBytes && Length < BusyBytes / 2)
            MoveTo(Length);
    }

    /// <summary>Discards its bytes and returns its array.</summary>
    public void Release()
    {
        (_start, _end) = (0, 0);
        if (_array is null)
            return;
        ArrayPool<byte>.Shared.Return(_array);
        _array = null;
    }

    private void MoveTo(int size)
    {
        var array = ArrayPool<byte>.Shared.Rent(size);
        var length = Length;
        Unread.CopyTo(array);
        Release();
        (_array, _end) = (array, length);
    }

    private void MoveToStart()
    {
        Unread.CopyTo(_array);
        (_start, _end) = (0, Length);
    }
}

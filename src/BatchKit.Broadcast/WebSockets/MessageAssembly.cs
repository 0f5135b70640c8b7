using System.Buffers;
using System.Text.Unicode;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Puts received fragments together to messages, in one rented array; holds none while nothing is there.</summary>
internal sealed class MessageAssembly(int maxRecordBytes)
{
    private const int FirstBytes = 4096;
    private const int MostRecords = 256;

    private byte[] _array = [];
    private ReceivedRecord[] _records = [];
    private int _count;
    private int _messageStart;
    private int _end;
    private bool _isInMessage;

    /// <summary>The messages that are whole and not delivered yet.</summary>
    public ReadOnlyMemory<ReceivedRecord> Records => _records.AsMemory(0, _count);

    /// <summary>True when what is there has to be delivered before more is received.</summary>
    public bool IsFull => _count >= MostRecords || (_count > 0 && _end == _array.Length);

    /// <summary>Room to receive into, for one byte too many at most; empty while nothing is there, which asks to be told of data without receiving any.</summary>
    public Memory<byte> GetRoom()
    {
        if (_count == 0 && !_isInMessage)
        {
            Release();
            return default;
        }

        if (_end == _array.Length)
            Grow();
        return _array.AsMemory(_end, Math.Min(_array.Length - _end, maxRecordBytes + 1 - (_end - _messageStart)));
    }

    /// <summary>Takes what was received into the room.</summary>
    public MessageFault Add(int bytes, bool isEnd, RecordKind kind)
    {
        _end += bytes;
        _isInMessage = !isEnd;
        var message = _array.AsMemory(_messageStart, _end - _messageStart);
        if (message.Length > maxRecordBytes)
            return MessageFault.TooLong;
        if (!isEnd)
            return MessageFault.None;

        // The framework's WebSocket checks texts as they come, but not for a character that an empty last fragment leaves unfinished.
        if (bytes == 0 && kind == RecordKind.Data && !Utf8.IsValid(message.Span))
            return MessageFault.InvalidText;
        if (_count == _records.Length)
            Array.Resize(ref _records, Math.Max(1, _count * 2));
        _records[_count++] = new ReceivedRecord(message, kind);
        _messageStart = _end;
        return MessageFault.None;
    }

    /// <summary>Forgets the messages that were delivered.</summary>
    public void Clear()
    {
        Array.Clear(_records, 0, _count);
        _count = 0;
    }

    /// <summary>Gives the array back; nothing is received into it any more.</summary>
    public void Release()
    {
        (_messageStart, _end) = (0, 0);
        if (_array.Length == 0)
            return;
        ArrayPool<byte>.Shared.Return(_array);
        _array = [];
    }

    private void Grow()
    {
        // Only called without records, whose bytes lie in the array.
        var begun = _end - _messageStart;
        var larger = ArrayPool<byte>.Shared.Rent(Math.Max(FirstBytes, (int)Math.Min((long)begun * 2, maxRecordBytes + 1L)));
        _array.AsSpan(_messageStart, begun).CopyTo(larger);
        Release();
        (_array, _end) = (larger, begun);
    }
}

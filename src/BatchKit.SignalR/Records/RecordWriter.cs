using System.Buffers;
using System.Buffers.Binary;
using System.Runtime.ExceptionServices;
using System.Text;
using Microsoft.AspNetCore.SignalR.Protocol;

namespace BatchKit.SignalR.Records;

/// <summary>What a record asks of the node that reads it.</summary>
internal enum RecordKind : byte
{
    /// <summary>Write a message to the handle's clients: the excluded connections, then the message for each protocol.</summary>
    Send = 1,

    /// <summary>Write an invocation that wants a result: who asks, its id, then the message for each protocol.</summary>
    Invoke = 2,

    /// <summary>A client's result, for the server that asked: the connection, the protocol's name, the message.</summary>
    Result = 3,

    /// <summary>Add the handle's connection to a group: who asks, its id, the group.</summary>
    AddToGroup = 4,

    /// <summary>Remove the handle's connection from a group: who asks, its id, the group.</summary>
    RemoveFromGroup = 5,

    /// <summary>For the server that asked: this id's connection is here, and it was done.</summary>
    Acknowledge = 6,
}

/// <summary>A protocol, with its name as records have it.</summary>
internal sealed record NamedProtocol(IHubProtocol Protocol, byte[] Name)
{
    public NamedProtocol(IHubProtocol protocol)
        : this(protocol, Encoding.UTF8.GetBytes(protocol.Name))
    {
    }
}

/// <summary>Writes one record into memory that it reuses. A record is a byte for its kind, and fields that begin with their lengths.</summary>
internal sealed class RecordWriter : IBufferWriter<byte>
{
    private byte[] _buffer = new byte[1024];
    private int _length;

    /// <summary>The memory that it has.</summary>
    public int Capacity => _buffer.Length;

    public ReadOnlyMemory<byte> Written => _buffer.AsMemory(0, _length);

    public RecordWriter Begin(RecordKind kind)
    {
        _length = 0;
        GetSpan(1)[0] = (byte)kind;
        _length = 1;
        return this;
    }

    public RecordWriter Text(string text)
    {
        var start = BeginField();
        _length += Encoding.UTF8.GetBytes(text, GetSpan(Encoding.UTF8.GetMaxByteCount(text.Length)));
        return EndField(start);
    }

    public RecordWriter Texts(IReadOnlyList<string>? texts)
    {
        Number(texts?.Count ?? 0);
        for (var index = 0; index < (texts?.Count ?? 0); index++)
            Text(texts![index]);
        return this;
    }

    /// <summary>The message as each protocol encodes it, behind the protocol's name. One that can't encode it is left out, and told why; when none can, the first one's error is thrown.</summary>
    public RecordWriter Message(HubMessage message, ReadOnlySpan<NamedProtocol> protocols, Action<string, Exception> leftOut)
    {
        List<(string Protocol, Exception Error)>? failed = null;
        var start = _length;
        Number(0);
        foreach (var (protocol, name) in protocols)
        {
            var begun = _length;
            try
            {
                Number(name.Length);
                this.Write(name);
                Message(message, protocol);
            }
            catch (Exception error)
            {
                _length = begun;
                (failed ??= []).Add((protocol.Name, error));
            }
        }

        var encoded = protocols.Length - (failed?.Count ?? 0);
        if (encoded == 0 && failed is [var (_, first), ..])
            ExceptionDispatchInfo.Throw(first);
        failed?.ForEach(one => leftOut(one.Protocol, one.Error));
        BinaryPrimitives.WriteInt32LittleEndian(_buffer.AsSpan(start), encoded);
        return this;
    }

    public RecordWriter Message(HubMessage message, IHubProtocol protocol)
    {
        var start = BeginField();
        protocol.WriteMessage(message, this);
        return EndField(start);
    }

    public void Advance(int count) => _length += count;

    public Memory<byte> GetMemory(int sizeHint = 0)
    {
        Reserve(sizeHint);
        return _buffer.AsMemory(_length);
    }

    public Span<byte> GetSpan(int sizeHint = 0)
    {
        Reserve(sizeHint);
        return _buffer.AsSpan(_length);
    }

    private void Reserve(int bytes)
    {
        if (_buffer.Length - _length < Math.Max(bytes, 1))
            Array.Resize(ref _buffer, Math.Max(_buffer.Length * 2, _length + bytes));
    }

    private void Number(int value)
    {
        BinaryPrimitives.WriteInt32LittleEndian(GetSpan(sizeof(int)), value);
        _length += sizeof(int);
    }

    private int BeginField()
    {
        Number(0);
        return _length;
    }

    private RecordWriter EndField(int start)
    {
        BinaryPrimitives.WriteInt32LittleEndian(_buffer.AsSpan(start - sizeof(int)), _length - start);
        return this;
    }
}

/// <summary>Reads a record's fields in order. A field that the record does not hold makes it malformed: it then reads as empty, and <see cref="IsMalformed"/> stays true.</summary>
internal ref struct RecordReader
{
    private ReadOnlySpan<byte> _rest;

    public RecordReader(ReadOnlySpan<byte> record)
        : this(record.IsEmpty ? [] : record[1..], record.IsEmpty ? default : (RecordKind)record[0]) => IsMalformed = record.IsEmpty;

    private RecordReader(ReadOnlySpan<byte> rest, RecordKind kind)
    {
        _rest = rest;
        Kind = kind;
    }

    public RecordKind Kind { get; }

    public bool IsMalformed { get; private set; }

    /// <summary>Reads what <see cref="SkipTexts"/> returned.</summary>
    public static string[] ReadTexts(ReadOnlySpan<byte> texts)
    {
        var reader = new RecordReader(texts, default);
        var read = new string[reader.Count()];
        for (var index = 0; index < read.Length; index++)
            read[index] = reader.Text();
        return read;
    }

    public string Text() => Encoding.UTF8.GetString(Field());

    /// <summary>Finds the message as a protocol encodes it.</summary>
    /// <returns>False when the record's server did not have the protocol.</returns>
    public bool TryFindMessage(ReadOnlySpan<byte> protocol, out ReadOnlySpan<byte> message)
    {
        message = default;
        for (var count = Count(); count > 0; count--)
        {
            var name = Field();
            message = Field();
            if (name.SequenceEqual(protocol))
                return !IsMalformed;
        }

        return false;
    }

    /// <summary>Looks for a protocol's message from here on, and reads nothing.</summary>
    public readonly bool HasMessage(NamedProtocol protocol)
    {
        var copy = this;
        return copy.TryFindMessage(protocol.Name, out _);
    }

    /// <summary>Skips texts, to compare or to leave them out.</summary>
    public ReadOnlySpan<byte> SkipTexts()
    {
        var start = _rest;
        for (var count = Count(); count > 0; count--)
            _ = Field();
        return IsMalformed ? [] : start[..(start.Length - _rest.Length)];
    }

    public ReadOnlySpan<byte> Field()
    {
        var length = Number();
        if ((uint)length > (uint)_rest.Length)
            return Fail();
        var field = _rest[..length];
        _rest = _rest[length..];
        return field;
    }

    // Each text takes four bytes at least, so a count beyond that is a lie that would only cost memory.
    private int Count()
    {
        var count = Number();
        if ((uint)count <= (uint)_rest.Length / sizeof(int))
            return count;
        Fail();
        return 0;
    }

    private int Number()
    {
        if (_rest.Length < sizeof(int))
        {
            Fail();
            return 0;
        }

        var value = BinaryPrimitives.ReadInt32LittleEndian(_rest);
        _rest = _rest[sizeof(int)..];
        return value;
    }

    private ReadOnlySpan<byte> Fail()
    {
        IsMalformed = true;
        _rest = [];
        return [];
    }
}

using System.Buffers;
using BatchKit.Broadcast.Receiving;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Reads what a telnet client sends (RFC 854), plain or compressed, in fragments of any size: it returns lines and GMCP messages, and carries out commands.</summary>
internal sealed class TelnetRecordReader(ClientConnection connection, TelnetNegotiation negotiation, int maxRecordBytes, bool filtersText, TimeProvider timeProvider) : IRecordReader, IDisposable
{
    /// <summary>A longer subnegotiation is a protocol error.</summary>
    public const int MaxSubnegotiationBytes = 8 * 1024;

    private const byte Delete = 127;

    // One answer to AYT per period is enough for a user; a client that asks all the time gets no more.
    private static readonly TimeSpan AnswerPeriod = TimeSpan.FromSeconds(1);

    // Control characters, DEL and IAC; the bytes between them are text.
    private static readonly SearchValues<byte> Special = SearchValues.Create([.. Enumerable.Range(0, ' ').Select(code => (byte)code), Delete, TelnetCode.Interpret]);

    private readonly TelnetLine _line = new(maxRecordBytes);

    // Created on first need: most clients send neither, once their negotiation is over.
    private TelnetLine? _subnegotiation;
    private RecordBytes? _recordBytes;
    private CompressedInput? _compressed;
    private State _state;
    private byte _command;
    private bool _wasReturn;
    private long? _areYouThereAnsweredAt;

    private enum State
    {
        Text,
        Interpret,
        Negotiation,
        SubnegotiationOption,
        Subnegotiation,
        SubnegotiationInterpret,
    }

    public string? Failure { get; private set; }

    public bool HasMore => _compressed is { IsFull: true };

    public int AddedBytes => _compressed?.AddedBytes ?? 0;

    private TelnetLine Subnegotiation => _subnegotiation ??= new TelnetLine(MaxSubnegotiationBytes);

    private RecordBytes Changed => _recordBytes ??= new RecordBytes();

    public bool TryRead(Memory<byte> received, List<ReceivedRecord> records, out int consumedBytes)
    {
        _recordBytes?.Clear();
        _compressed?.BeginRead();
        ReadOnlyMemory<byte> rest = received;
        var isMore = true;
        while (isMore && Failure is null && records.Count < RecordBatch.MaxRecords)
            isMore = _compressed is { IsActive: true } compressed ? TryReadCompressed(compressed, ref rest, records) : TryReadPlain(ref rest, records);
        negotiation.Flush();
        consumedBytes = received.Length - rest.Length;
        return Failure is null;
    }

    public void Dispose() => _compressed?.Dispose();

    private bool TryReadCompressed(CompressedInput compressed, ref ReadOnlyMemory<byte> bytes, List<ReceivedRecord> records)
    {
        try
        {
            if (!compressed.TryInflate(ref bytes))
                return false;
        }
        catch (InvalidDataException)
        {
            Failure = "compressed input that can't be inflated";
            return false;
        }

        var inflated = compressed.Unread;
        TryReadPlain(ref inflated, records);
        compressed.Unread = inflated;
        return true;
    }

    /// <summary>Reads text up to the next special byte, or a part of a command.</summary>
    /// <returns>False when there are no bytes.</returns>
    private bool TryReadPlain(ref ReadOnlyMemory<byte> bytes, List<ReceivedRecord> records)
    {
        if (bytes.IsEmpty)
            return false;
        if (_state == State.Text)
            ReadText(ref bytes, records);
        else
            ReadCommand(ref bytes, records);
        return true;
    }

    /// <summary>Reads text up to and including the next special byte.</summary>
    private void ReadText(ref ReadOnlyMemory<byte> bytes, List<ReceivedRecord> records)
    {
        var length = bytes.Span.IndexOfAny(Special);
        var text = length < 0 ? bytes : bytes[..length];
        _wasReturn &= text.IsEmpty;
        if (length < 0)
        {
            _line.Append(text.Span);
            bytes = default;
            return;
        }

        var special = bytes.Span[length];
        bytes = bytes[(length + 1)..];
        if (special is (byte)'\r' or (byte)'\n')
            EndLine(text, special, records);
        else
            Edit(text.Span, special);
    }

    /// <summary>Ends a line, at CR LF, CR NUL, CR or LF: clients differ.</summary>
    private void EndLine(ReadOnlyMemory<byte> text, byte special, List<ReceivedRecord> records)
    {
        var isSecond = special == '\n' && _wasReturn;
        _wasReturn = special == '\r';
        if (isSecond)
            return;
        connection.Prompts?.NoteLine();
        var charset = connection.Terminal!.Charset;
        if (_line.IsEmpty && text.Length <= maxRecordBytes && TelnetText.IsClean(text.Span, charset, filtersText))
        {
            // What is inflated next takes the place of an inflated text.
            records.Add(new ReceivedRecord(_compressed is { IsActive: true } ? Copy(text.Span) : text));
            return;
        }

        _line.Append(text.Span);
        records.Add(_line.IsTooLong ? new ReceivedRecord(default, RecordKind.TooLong) : new ReceivedRecord(Clean(_line.Text, charset)));
        _line.Clear();
    }

    private void Edit(ReadOnlySpan<byte> text, byte special)
    {
        _line.Append(text);
        if (special == TelnetCode.Interpret)
        {
            _state = State.Interpret;
            return;
        }

        _wasReturn = false;
        if (special is (byte)'\b' or Delete)
            _line.RubOut(connection.Terminal!.Charset);
        else if (special is (byte)'\t' or (byte)'\v' or (byte)'\f')
            _line.Append(" "u8);
    }

    private void ReadCommand(ref ReadOnlyMemory<byte> bytes, List<ReceivedRecord> records)
    {
        if (_state == State.Subnegotiation)
        {
            ReadSubnegotiation(ref bytes);
            return;
        }

        var value = bytes.Span[0];
        bytes = bytes[1..];
        switch (_state)
        {
            case State.Interpret:
                ApplyCommand(value);
                break;
            case State.Negotiation:
                _state = State.Text;
                negotiation.Receive(_command, value);
                CheckLimits();
                break;
            case State.SubnegotiationOption:
                _command = value;
                _state = value == TelnetCode.Interpret ? State.SubnegotiationInterpret : State.Subnegotiation;
                break;
            default:
                ReadSubnegotiationCommand(value, records);
                CheckLimits();
                break;
        }
    }

    private void ApplyCommand(byte command)
    {
        _state = command switch
        {
            TelnetCode.Subnegotiation => State.SubnegotiationOption,
            >= TelnetCode.Will and <= TelnetCode.Dont => State.Negotiation,
            _ => State.Text,
        };
        _command = command;
        negotiation.NoteCommand();
        switch (command)
        {
            case TelnetCode.Interpret:
                _wasReturn = false;
                _line.Append([TelnetCode.Interpret]);
                break;
            case TelnetCode.EraseCharacter:
                _line.RubOut(connection.Terminal!.Charset);
                break;
            case TelnetCode.EraseLine:
                _line.Clear();
                break;
            case TelnetCode.AreYouThere when !(_areYouThereAnsweredAt is { } at && timeProvider.GetElapsedTime(at) < AnswerPeriod):
                _areYouThereAnsweredAt = timeProvider.GetTimestamp();
                negotiation.AnswerAreYouThere();
                break;
        }
    }

    private void ReadSubnegotiation(ref ReadOnlyMemory<byte> bytes)
    {
        var length = bytes.Span.IndexOf(TelnetCode.Interpret);
        if (length < 0)
        {
            Subnegotiation.Append(bytes.Span);
            bytes = default;
        }
        else
        {
            Subnegotiation.Append(bytes.Span[..length]);
            bytes = bytes[(length + 1)..];
            _state = State.SubnegotiationInterpret;
        }

        CheckLimits();
    }

    private void ReadSubnegotiationCommand(byte command, List<ReceivedRecord> records)
    {
        if (command == TelnetCode.Interpret)
        {
            Subnegotiation.Append([TelnetCode.Interpret]);
            _state = State.Subnegotiation;
            return;
        }

        // A client that forgot the end stays connected: its unfinished subnegotiation is discarded.
        if (command != TelnetCode.SubnegotiationEnd)
            ApplyCommand(command);
        else
            EndSubnegotiation(records);
        Subnegotiation.Clear();
    }

    private void EndSubnegotiation(List<ReceivedRecord> records)
    {
        _state = State.Text;
        var body = Subnegotiation.Text;
        if (_command == TelnetCode.InputCompressionOption)
            StartInflating();
        else if (_command is not (TelnetCode.GmcpOption or TelnetCode.MsdpOption))
            negotiation.ReceiveSubnegotiation(_command, body);
        else if ((_command == TelnetCode.GmcpOption ? negotiation.TakesGmcp : negotiation.TakesMsdp) && body.Length > maxRecordBytes)
            records.Add(new ReceivedRecord(default, RecordKind.TooLong));
        else if (_command == TelnetCode.GmcpOption && negotiation.TakesGmcp)
            records.Add(new ReceivedRecord(filtersText ? Filter(body, GmcpText.Filter) : Clean(body, TelnetCharset.Utf8), RecordKind.Gmcp));
        else if (_command == TelnetCode.MsdpOption && negotiation.TakesMsdp)
            records.Add(new ReceivedRecord(filtersText ? Filter(body, TelnetMessages.FilterMsdp) : Copy(body), RecordKind.Msdp));
    }

    private void StartInflating()
    {
        if (negotiation.TryStartCompressedInput())
            (_compressed ??= new CompressedInput()).Start();
        else
            Failure = "compressed input that was not agreed";
    }

    private void CheckLimits()
    {
        if (_subnegotiation is { IsTooLong: true })
            Failure = $"a subnegotiation above {MaxSubnegotiationBytes} bytes";
        else if (!negotiation.IsWithinLimits)
            Failure = $"more than {TelnetAnswers.MaxAnswers} requests in negotiation";
    }

    private ReadOnlyMemory<byte> Copy(ReadOnlySpan<byte> bytes)
    {
        bytes.CopyTo(Changed.GetFree(bytes.Length));
        return Changed.Take(bytes.Length);
    }

    private ReadOnlyMemory<byte> Filter(ReadOnlySpan<byte> body, Func<ReadOnlySpan<byte>, Span<byte>, int> filter) => Changed.Take(filter(body, Changed.GetFree(PlayerText.GetMaxBytes(body.Length))));

    private ReadOnlyMemory<byte> Clean(ReadOnlySpan<byte> text, TelnetCharset charset) =>
        Changed.Take(TelnetText.ToUtf8(text, charset, filtersText, Changed.GetFree(PlayerText.GetMaxBytes(text.Length))));
}

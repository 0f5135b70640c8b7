using System.Buffers;
using System.Buffers.Binary;
using System.Text.Unicode;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>What a server has to do with a client's bytes by RFC 6455, worked out frame by frame in the plainest way: which messages it takes, which pings it answers, how it closes.</summary>
/// <param name="maxRecordBytes">The longest message.</param>
/// <param name="waitsForCharacters">
/// What a fragment ends with may be no part of UTF-8 whatever follows. True to say so when the character would have ended, false to say so at once; a server may do either.
/// </param>
internal sealed class ExpectedSession(int maxRecordBytes, bool waitsForCharacters)
{
    /// <summary>No close frame: the bytes just end.</summary>
    public const int Nothing = 0;

    private const int MinHeaderBytes = 6;
    private readonly List<byte> _message = [];
    private int _messageOpcode;

    /// <summary>The messages that are whole.</summary>
    public List<byte[]> Messages { get; } = [];

    /// <summary>The payloads of the pings that are whole.</summary>
    public List<byte[]> Pings { get; } = [];

    public int CloseCode { get; private set; }

    public void Read(ReadOnlySpan<byte> bytes)
    {
        while (CloseCode == Nothing && TryReadHeader(bytes, out var header, out var length))
        {
            var opcode = bytes[0] & 0xF;
            if (IsViolation(bytes[0], bytes[1], opcode, length))
            {
                CloseCode = 1002;
                return;
            }

            var isWhole = bytes.Length - header >= length;
            var payload = Unmask(bytes[(header - 4)..header], bytes[header..(isWhole ? (int)(header + length) : bytes.Length)]);
            Take(opcode, (bytes[0] & 0x80) != 0, isWhole, payload);
            if (!isWhole)
                return;
            bytes = bytes[(int)(header + length)..];
        }
    }

    private static bool TryReadHeader(ReadOnlySpan<byte> bytes, out int header, out long length)
    {
        (header, length) = (MinHeaderBytes, 0);
        if (bytes.Length < MinHeaderBytes)
            return false;
        length = bytes[1] & 0x7F;
        header += length switch { 126 => 2, 127 => 8, _ => 0 };
        if (bytes.Length < header)
            return false;
        if (length == 126)
            length = BinaryPrimitives.ReadUInt16BigEndian(bytes[2..]);
        else if (length == 127)
            length = BinaryPrimitives.ReadInt64BigEndian(bytes[2..]);
        return true;
    }

    private static byte[] Unmask(ReadOnlySpan<byte> mask, ReadOnlySpan<byte> payload)
    {
        var plain = payload.ToArray();
        for (var index = 0; index < plain.Length; index++)
            plain[index] ^= mask[index % mask.Length];
        return plain;
    }

    private bool IsViolation(byte first, byte second, int opcode, long length)
    {
        var isControl = opcode >= RawFrame.Close;
        var isKnown = opcode is RawFrame.Continuation or RawFrame.Text or RawFrame.Binary or RawFrame.Close or RawFrame.Ping or RawFrame.Pong;
        return (first & 0x70) != 0
            || (second & 0x80) == 0
            || !isKnown
            || length < 0
            || (isControl && ((first & 0x80) == 0 || length > 125))
            || (opcode == RawFrame.Close && length == 1)
            || (!isControl && (opcode == RawFrame.Continuation) != (_messageOpcode != 0));
    }

    private void Take(int opcode, bool isFinal, bool isWhole, byte[] payload)
    {
        if (opcode == RawFrame.Ping && isWhole)
            Pings.Add(payload);
        if (opcode == RawFrame.Close && isWhole)
            CloseCode = AnswerTo(payload);
        if (opcode >= RawFrame.Close)
            return;
        _messageOpcode = opcode == RawFrame.Continuation ? _messageOpcode : opcode;

        // A frame is looked at when it is whole, or when what came of it is too much.
        if (!isWhole && _message.Count + payload.Length <= maxRecordBytes)
            return;
        _message.AddRange(payload[..Math.Min(payload.Length, maxRecordBytes + 1 - _message.Count)]);
        var isTooBig = _message.Count > maxRecordBytes;
        var isEnd = isFinal && !isTooBig;
        if (_messageOpcode == RawFrame.Text && !IsUtf8(_message.ToArray(), isEnd))
            CloseCode = 1007;
        else if (isTooBig)
            CloseCode = 1009;
        else if (isEnd)
            EndMessage();
    }

    private void EndMessage()
    {
        Messages.Add([.. _message]);
        _message.Clear();
        _messageOpcode = 0;
    }

    private static int AnswerTo(byte[] payload)
    {
        if (payload.Length == 0)
            return 1000;
        var code = BinaryPrimitives.ReadUInt16BigEndian(payload);
        var isAllowed = code is (>= 1000 and <= 1003) or (>= 1007 and <= 1014) or (>= 3000 and <= 4999);
        return isAllowed && Utf8.IsValid(payload.AsSpan(2)) ? code : 1002;
    }

    private bool IsUtf8(ReadOnlySpan<byte> text, bool isEnd)
    {
        const int unfinishedBytes = 3;
        Span<char> characters = new char[text.Length];
        var status = Utf8.ToUtf16(text, characters, out var read, out _, replaceInvalidSequences: false, isFinalBlock: isEnd);
        return status is OperationStatus.Done
            || (!isEnd && status is OperationStatus.NeedMoreData)
            || (!isEnd && waitsForCharacters && text[read] >= 0xC0 && text[read] < 0xF8 && text.Length - read <= unfinishedBytes);
    }
}

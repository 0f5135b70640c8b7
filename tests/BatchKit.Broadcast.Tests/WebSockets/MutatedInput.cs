using System.Text;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>Makes a client's bytes: some frames as they should be, and then up to four changes.</summary>
internal sealed class MutatedInput(int seed)
{
    private const int MaxBytes = 1024;
    private static readonly string[] Texts = ["", "hello", "grüße €5 👋", new('x', 60), new('y', 130)];
    private static readonly int[] CloseCodes = [1000, 1001, 1005, 1011, 3000, 5000];
    private static readonly byte[] TellingBytes = [0x00, 0x7E, 0x7F, 0x80, 0x81, 0x82, 0x88, 0x89, 0x8A, 0xC1, 0xFE, 0xFF];

    private readonly Random _random = new(seed);

    public byte[] Bytes { get; } = new byte[MaxBytes];

    public int Length { get; private set; }

    /// <summary>How many bytes one read brings.</summary>
    public int ChunkBytes { get; private set; }

    public void Next()
    {
        Length = 0;
        for (var frames = _random.Next(1, 5); frames > 0; frames--)
            AddFrames();
        if (_random.Next(4) > 0)
            Add(RawFrame.MaskedClose(1000));
        for (var changes = _random.Next(0, 5); changes > 0; changes--)
            Change();
        ChunkBytes = _random.Next(3) == 0 ? _random.Next(1, 8) : MaxBytes;
    }

    private void AddFrames()
    {
        var text = Encoding.UTF8.GetBytes(Texts[_random.Next(Texts.Length)]);
        var opcode = _random.Next(2) == 0 ? RawFrame.Text : RawFrame.Binary;
        switch (_random.Next(8))
        {
            case 0:
                Add(RawFrame.Masked(RawFrame.Final | RawFrame.Ping, text.AsSpan(..Math.Min(125, text.Length))));
                break;
            case 1:
                Add(RawFrame.Masked(RawFrame.Final | RawFrame.Pong, "pong"u8));
                break;
            case 2:
                Add(RawFrame.MaskedClose(CloseCodes[_random.Next(CloseCodes.Length)]));
                break;
            case 3:
                var middle = _random.Next(text.Length + 1);
                Add(RawFrame.Masked(opcode, text.AsSpan(..middle)));
                Add(RawFrame.Masked(RawFrame.Final | RawFrame.Continuation, text.AsSpan(middle..)));
                break;
            default:
                Add(RawFrame.Masked(RawFrame.Final | opcode, text));
                break;
        }
    }

    private void Add(byte[] frame)
    {
        if (Length + frame.Length > MaxBytes)
            return;
        frame.CopyTo(Bytes, Length);
        Length += frame.Length;
    }

    private void Change()
    {
        var at = _random.Next(Length);
        switch (_random.Next(5))
        {
            case 0:
                Bytes[at] ^= (byte)(1 << _random.Next(8));
                break;
            case 1:
                Bytes[at] = TellingBytes[_random.Next(TellingBytes.Length)];
                break;
            case 2:
                Bytes[at] = (byte)_random.Next(256);
                break;
            case 3:
                Bytes.AsSpan((at + 1)..Length).CopyTo(Bytes.AsSpan(at));
                Length = Math.Max(1, Length - 1);
                break;
            default:
                Length = at + 1;
                break;
        }
    }
}

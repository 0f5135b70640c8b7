using System.Text;

namespace BatchKit.Broadcast.Telnet;

/// <summary>The line that a client is typing, in its own charset.</summary>
internal sealed class TelnetLine(int maxBytes)
{
    private const int FirstBytes = 128;

    // An idle client keeps no more than this.
    private const int MaxKeptBytes = 1024;

    private byte[] _bytes = [];
    private int _length;

    public ReadOnlySpan<byte> Text => _bytes.AsSpan(0, _length);

    public bool IsEmpty => _length == 0 && !IsTooLong;

    /// <summary>True when the line has become longer than it may be; what follows up to its end is thrown away.</summary>
    public bool IsTooLong { get; private set; }

    public void Append(ReadOnlySpan<byte> text)
    {
        if (IsTooLong)
            return;
        if (text.Length > maxBytes - _length)
        {
            Clear();
            IsTooLong = true;
            return;
        }

        if (_bytes.Length < _length + text.Length)
            Array.Resize(ref _bytes, (int)Math.Clamp(2L * (_length + text.Length), Math.Min(FirstBytes, maxBytes), maxBytes));
        text.CopyTo(_bytes.AsSpan(_length));
        _length += text.Length;
    }

    /// <summary>Takes back one character, of several bytes in UTF-8.</summary>
    public void RubOut(TelnetCharset charset)
    {
        if (_length == 0)
            return;
        var bytes = 1;
        if (charset == TelnetCharset.Utf8)
            Rune.DecodeLastFromUtf8(Text, out _, out bytes);
        _length -= bytes;
    }

    /// <summary>Starts anew.</summary>
    public void Clear()
    {
        (_length, IsTooLong) = (0, false);
        if (_bytes.Length > MaxKeptBytes)
            _bytes = [];
    }
}

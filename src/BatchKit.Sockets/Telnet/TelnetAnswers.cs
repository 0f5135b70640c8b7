using System.Buffers;
using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Telnet;

/// <summary>The server's answers in negotiation: sent together for each read, and limited per connection, so that a flood of requests is not answered endlessly.</summary>
internal sealed class TelnetAnswers(ClientConnection connection)
{
    // Clients need about ten. An old client that repeats its negotiation needs a few dozen.
    public const int MaxAnswers = 1024;

    private const int FirstBytes = 256;

    // Rented for the time from the first answer to a read until the answers are sent.
    private byte[] _bytes = [];
    private int _length;
    private int _answers;

    /// <summary>True when the client has sent more requests than allowed.</summary>
    public bool IsExhausted => _answers > MaxAnswers;

    public void Add(params ReadOnlySpan<byte> answer)
    {
        if (++_answers <= MaxAnswers)
            AddText(answer);
    }

    /// <summary>Adds text, which is not limited.</summary>
    public void AddText(ReadOnlySpan<byte> text)
    {
        if (_bytes.Length < _length + text.Length)
            MoveTo(ArrayPool<byte>.Shared.Rent(Math.Max(FirstBytes, 2 * (_length + text.Length))));
        text.CopyTo(_bytes.AsSpan(_length));
        _length += text.Length;
    }

    /// <summary>Sends what was added.</summary>
    /// <param name="nextWire">Creates the wire for all bytes after it; null to keep the current one.</param>
    public void Flush(Func<IWire, IWire>? nextWire = null)
    {
        if (_length == 0)
            return;
        connection.SendControl(_bytes.AsSpan(0, _length), IsExhausted ? null : nextWire);
        _length = 0;
        MoveTo([]);
    }

    private void MoveTo(byte[] bytes)
    {
        _bytes.AsSpan(0, _length).CopyTo(bytes);
        if (_bytes.Length > 0)
            ArrayPool<byte>.Shared.Return(_bytes);
        _bytes = bytes;
    }
}

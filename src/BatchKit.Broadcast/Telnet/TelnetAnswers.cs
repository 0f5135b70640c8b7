using System.Buffers;
using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Telnet;

/// <summary>What the server says in negotiation: put together for one read, and limited for a connection, so that a flood of requests is not answered without end.</summary>
internal sealed class TelnetAnswers(ClientConnection connection)
{
    // Clients need about ten, and an old one that negotiates again and again a few dozen.
    public const int MaxAnswers = 1024;

    private readonly ArrayBufferWriter<byte> _bytes = new();
    private int _answers;

    /// <summary>True when the client asked for more than it may.</summary>
    public bool IsExhausted => _answers > MaxAnswers;

    public void Add(params ReadOnlySpan<byte> answer)
    {
        if (++_answers <= MaxAnswers)
            _bytes.Write(answer);
    }

    /// <summary>Adds text, which is not limited.</summary>
    public void AddText(ReadOnlySpan<byte> text) => _bytes.Write(text);

    /// <summary>Sends what was added.</summary>
    /// <param name="nextWire">Makes what takes over behind it; null for nothing.</param>
    public void Flush(Func<IWire, IWire>? nextWire = null)
    {
        if (_bytes.WrittenCount == 0)
            return;
        connection.SendControl(_bytes.WrittenSpan, IsExhausted ? null : nextWire);
        _bytes.ResetWrittenCount();
    }
}

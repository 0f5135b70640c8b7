using System.Text;

namespace MudServer.Telnet;

/// <summary>Makes lines of what a client sends, however it is cut up: takes out negotiation, control characters and what was rubbed out.</summary>
internal sealed class TelnetLineReader(int maxLineBytes)
{
    private readonly byte[] _line = new byte[maxLineBytes];
    private int _length;
    private bool _isTooLong;
    private bool _wasReturn;
    private State _state;

    private enum State
    {
        Text,
        Interpret,
        Option,
        Subnegotiation,
        SubnegotiationInterpret,
    }

    /// <summary>Reads up to the end of the next line.</summary>
    /// <param name="bytes">What is left to read; what was read is cut off.</param>
    /// <param name="line">The line when the result is <see cref="TelnetLineResult.Line"/>.</param>
    public TelnetLineResult Read(ref ReadOnlySpan<byte> bytes, out string line)
    {
        line = string.Empty;
        for (var index = 0; index < bytes.Length; index++)
        {
            if (!TryTakeText(bytes[index]) || !EndsLine(bytes[index]))
                continue;
            bytes = bytes[(index + 1)..];
            var result = _isTooLong ? TelnetLineResult.TooLong : TelnetLineResult.Line;
            if (!_isTooLong)
                line = Encoding.UTF8.GetString(_line, 0, _length);
            _length = 0;
            _isTooLong = false;
            return result;
        }

        bytes = [];
        return TelnetLineResult.Incomplete;
    }

    /// <summary>Follows RFC 854's commands; true when the byte is text.</summary>
    private bool TryTakeText(byte value)
    {
        switch (_state)
        {
            case State.Text when value == TelnetCode.Interpret:
                _state = State.Interpret;
                return false;
            case State.Text:
                return true;
            case State.Interpret:
                _state = value switch
                {
                    TelnetCode.Subnegotiation => State.Subnegotiation,
                    >= TelnetCode.Will and <= TelnetCode.Dont => State.Option,
                    _ => State.Text,
                };
                return false;
            case State.Subnegotiation when value == TelnetCode.Interpret:
                _state = State.SubnegotiationInterpret;
                return false;
            case State.Subnegotiation:
                return false;
            case State.SubnegotiationInterpret:
                _state = value == TelnetCode.SubnegotiationEnd ? State.Text : State.Subnegotiation;
                return false;
            default:
                _state = State.Text;
                return false;
        }
    }

    /// <summary>A line ends with CR LF, CR NUL, CR or LF: clients differ.</summary>
    private bool EndsLine(byte value)
    {
        var wasReturn = _wasReturn;
        _wasReturn = value == '\r';
        if (value == '\n')
            return !wasReturn;
        if (value == '\r')
            return true;
        AddText(value);
        return false;
    }

    private void AddText(byte value)
    {
        if (value is (byte)'\b' or 127)
            RubOut();
        else if (value < ' ' && value != '\t')
            return;
        else if (_length < _line.Length)
            _line[_length++] = value == '\t' ? (byte)' ' : value;
        else
            _isTooLong = true;
    }

    /// <summary>Takes back a whole character, which may be several bytes of UTF-8.</summary>
    private void RubOut()
    {
        while (_length > 0 && (_line[--_length] & 0xC0) == 0x80)
        {
        }
    }
}

using System.Text;

namespace BatchKit.Broadcast.Tests.Clients;

/// <summary>A telnet client's side that refuses every option (RFC 854).</summary>
internal sealed class TelnetDecoder : IClientDecoder
{
    private const byte Iac = 255;
    private const byte Dont = 254;
    private const byte Do = 253;
    private const byte Wont = 252;
    private const byte Will = 251;
    private const byte Begin = 250;
    private const byte End = 240;

    private byte _command;
    private bool _isCommand;
    private bool _isSubnegotiation;

    public bool IsCut => _isCommand || _isSubnegotiation;

    public void Decode(ReadOnlySpan<byte> bytes, List<byte> text, List<byte> answer)
    {
        foreach (var value in bytes)
        {
            if (_isCommand)
                Follow(value, text, answer);
            else if (value == Iac)
                (_isCommand, _command) = (true, 0);
            else if (!_isSubnegotiation)
                text.Add(value);
        }
    }

    public byte[] Encode(string line) => Encoding.UTF8.GetBytes(line + "\r\n");

    private void Follow(byte value, List<byte> text, List<byte> answer)
    {
        if (_command != 0)
        {
            if (_command is Do or Will)
                answer.AddRange([Iac, _command == Do ? Wont : Dont, value]);
            _isCommand = false;
            return;
        }

        switch (value)
        {
            case Will or Wont or Do or Dont:
                _command = value;
                return;
            case Begin:
                _isSubnegotiation = true;
                break;
            case End:
                _isSubnegotiation = false;
                break;
            case Iac when !_isSubnegotiation:
                text.Add(Iac);
                break;
        }

        _isCommand = false;
    }
}

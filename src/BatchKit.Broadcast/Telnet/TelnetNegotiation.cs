using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Agrees with one client on options, and does what follows from them.</summary>
internal sealed class TelnetNegotiation
{
    private const TelnetFeatures ServerFeatures =
        TelnetFeatures.SuppressGoAhead | TelnetFeatures.EndOfRecord | TelnetFeatures.Gmcp | TelnetFeatures.Compression | TelnetFeatures.Charset;

    private const TelnetFeatures ClientFeatures =
        TelnetFeatures.SuppressGoAhead | TelnetFeatures.WindowSize | TelnetFeatures.TerminalType | TelnetFeatures.Charset;

    private readonly ClientConnection _connection;
    private readonly TelnetTerminal _terminal;
    private readonly TelnetOptions _options;
    private readonly TelnetAnswers _answers;
    private readonly OptionSide _server;
    private readonly OptionSide _client;
    private bool _isCharsetAsked;

    public TelnetNegotiation(ClientConnection connection, TelnetOptions options)
    {
        _connection = connection;
        _terminal = connection.Terminal!;
        _options = options;
        _answers = new TelnetAnswers(connection);
        _server = new OptionSide(options.Supported & ServerFeatures);
        _client = new OptionSide(options.Supported & ClientFeatures);
    }

    public bool TakesGmcp => (_server.Agreed & TelnetFeatures.Gmcp) != TelnetFeatures.None;

    /// <summary>False when the client has negotiated more than it may.</summary>
    public bool IsWithinLimits => !_answers.IsExhausted;

    /// <summary>Sends the offers.</summary>
    public void Start()
    {
        ReadOnlySpan<byte> ours =
        [
            TelnetCode.SuppressGoAheadOption, TelnetCode.EndOfRecordOption, TelnetCode.CharsetOption, TelnetCode.GmcpOption, TelnetCode.CompressionOption,
        ];
        ReadOnlySpan<byte> theirs = [TelnetCode.TerminalTypeOption, TelnetCode.WindowSizeOption];
        foreach (var option in theirs)
            Offer(_client, TelnetCode.Do, option);
        foreach (var option in ours)
            Offer(_server, TelnetCode.Will, option);
        Flush();
    }

    /// <summary>Hears WILL, WONT, DO or DONT.</summary>
    public void Hear(byte command, byte option)
    {
        var feature = FeatureOf(option);
        var isServers = command is TelnetCode.Do or TelnetCode.Dont;
        var side = isServers ? _server : _client;
        var before = side.Agreed;
        var answer = command is TelnetCode.Will or TelnetCode.Do ? side.HearYes(feature) : side.HearNo(feature);
        if (answer is { } agrees)
            _answers.Add(TelnetCode.Interpret, AnswerFor(isServers, agrees), option);
        if (side.Agreed == before)
            return;
        if (isServers)
            FollowServer(feature, isOn: side.Agreed > before);
        else if (feature == TelnetFeatures.TerminalType && side.Agreed > before)
            _answers.Add(TerminalTypes.Request);
        SetFormat();
    }

    /// <summary>Hears a subnegotiation of an option other than GMCP; one of an option that was not agreed on is ignored.</summary>
    public void HearSubnegotiation(byte option, ReadOnlySpan<byte> body)
    {
        var agreed = option == TelnetCode.CharsetOption ? _client.Agreed | _server.Agreed : _client.Agreed;
        var feature = FeatureOf(option) & agreed;
        if (feature == TelnetFeatures.WindowSize && WindowSizes.TryRead(body, out var width, out var height))
            (_terminal.Width, _terminal.Height) = (width, height);
        else if (feature == TelnetFeatures.TerminalType && TerminalTypes.TryRead(body, out var type))
            _terminal.Type ??= type;
        else if (feature == TelnetFeatures.Charset)
            HearCharset(body);
    }

    /// <summary>Answers AYT with something that a person sees, as RFC 854 asks for.</summary>
    public void SayPresence() => _answers.AddText("\r\n[Yes, the server is here.]\r\n"u8);

    /// <summary>Sends what was answered.</summary>
    public void Flush() => _answers.Flush();

    private void Offer(OptionSide side, byte command, byte option)
    {
        var feature = FeatureOf(option);
        if ((feature & _options.Offered & _options.Supported) == TelnetFeatures.None)
            return;
        side.Ask(feature);
        _answers.Add(TelnetCode.Interpret, command, option);
    }

    private void FollowServer(TelnetFeatures feature, bool isOn)
    {
        if (feature == TelnetFeatures.Charset && isOn)
        {
            _isCharsetAsked = true;
            _answers.Add(CharsetRequests.Request.Span);
        }
        else if (feature == TelnetFeatures.Compression)
        {
            FollowCompression(isOn);
        }
    }

    /// <summary>Compression starts right behind its subnegotiation, and ends right behind the answer.</summary>
    private void FollowCompression(bool isOn)
    {
        if (isOn)
        {
            _answers.Add(TelnetCode.Interpret, TelnetCode.Subnegotiation, TelnetCode.CompressionOption, TelnetCode.Interpret, TelnetCode.SubnegotiationEnd);
            _answers.Flush(StartCompression);
        }
        else
        {
            // One start a connection: another costs a client that asks again and again little, and the server much.
            _server.Forbid(TelnetFeatures.Compression);
            _answers.Flush(EndCompression);
        }
    }

    private CompressingWire StartCompression(IWire wire)
    {
        _terminal.IsCompressed = true;
        return new CompressingWire(wire, _options.CompressionLevel);
    }

    private CompressingWire EndCompression(IWire wire)
    {
        var compressing = (CompressingWire)wire;
        compressing.EndCompression();
        _terminal.IsCompressed = false;
        return compressing;
    }

    private void HearCharset(ReadOnlySpan<byte> body)
    {
        if (CharsetRequests.IsRequest(body))
        {
            // RFC 2066: when both ask at once, the server refuses, and the client answers the server's request.
            var name = _isCharsetAsked ? default : CharsetRequests.Choose(body);
            if (CharsetRequests.TryParse(name, out var chosen))
                _terminal.Charset = chosen;
            CharsetRequests.AddAnswer(_answers, name);
        }
        else
        {
            if (_isCharsetAsked && CharsetRequests.TryReadAccepted(body, out var accepted))
                _terminal.Charset = accepted;
            _isCharsetAsked = false;
        }

        SetFormat();
    }

    private void SetFormat()
    {
        var ending = (_server.Agreed & TelnetFeatures.EndOfRecord) != TelnetFeatures.None ? PromptEnding.EndOfRecord
            : (_server.Agreed & TelnetFeatures.SuppressGoAhead) != TelnetFeatures.None || !_options.SendsGoAhead ? PromptEnding.None
            : PromptEnding.GoAhead;
        _terminal.TakesGmcp = TakesGmcp;
        _connection.Format = WireFormat.Telnet(_terminal.Charset, ending, TakesGmcp);
    }

    private static byte AnswerFor(bool isServers, bool agrees) => (isServers, agrees) switch
    {
        (true, true) => TelnetCode.Will,
        (true, false) => TelnetCode.Wont,
        (false, true) => TelnetCode.Do,
        (false, false) => TelnetCode.Dont,
    };

    private static TelnetFeatures FeatureOf(byte option) => option switch
    {
        TelnetCode.SuppressGoAheadOption => TelnetFeatures.SuppressGoAhead,
        TelnetCode.TerminalTypeOption => TelnetFeatures.TerminalType,
        TelnetCode.EndOfRecordOption => TelnetFeatures.EndOfRecord,
        TelnetCode.WindowSizeOption => TelnetFeatures.WindowSize,
        TelnetCode.CharsetOption => TelnetFeatures.Charset,
        TelnetCode.CompressionOption => TelnetFeatures.Compression,
        TelnetCode.GmcpOption => TelnetFeatures.Gmcp,
        _ => TelnetFeatures.None,
    };
}

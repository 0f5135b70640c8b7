using System.Buffers.Binary;
using System.Text;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Negotiates options with one client and applies them.</summary>
internal sealed class TelnetNegotiation
{
    private const TelnetFeatures ServerFeatures =
        TelnetFeatures.SuppressGoAhead | TelnetFeatures.EndOfRecord | TelnetFeatures.Gmcp | TelnetFeatures.Compression | TelnetFeatures.InputCompression | TelnetFeatures.Charset | TelnetFeatures.ServerStatus
        | TelnetFeatures.Msdp;

    private const TelnetFeatures ClientFeatures =
        TelnetFeatures.SuppressGoAhead | TelnetFeatures.WindowSize | TelnetFeatures.TerminalType | TelnetFeatures.Charset | TelnetFeatures.Environment;

    private readonly ClientConnection _connection;
    private readonly TelnetTerminal _terminal;
    private readonly TelnetOptions _options;
    private readonly TelnetAnswers _answers;
    private readonly ConnectionTable? _connections;
    private OptionSide _server;
    private OptionSide _client;
    private TerminalTypes? _terminalTypes;
    private ClientVariables? _variables;
    private bool _isCharsetAsked;
    private bool _isCharsetChosen;

    /// <param name="connection">The client.</param>
    /// <param name="options">What is supported.</param>
    /// <param name="connections">Limits how many clients are compressed; null for no limit.</param>
    public TelnetNegotiation(ClientConnection connection, TelnetOptions options, ConnectionTable? connections = null)
    {
        _connection = connection;
        _connections = connections;
        _terminal = connection.Terminal!;
        _options = options;
        _answers = new TelnetAnswers(connection);
        _server = new OptionSide(options.Supported & ServerFeatures & (options.ServerStatus is null ? ~TelnetFeatures.ServerStatus : TelnetFeatures.All));
        _client = new OptionSide(options.Supported & ClientFeatures);
    }

    public bool TakesGmcp => (_server.Agreed & TelnetFeatures.Gmcp) != TelnetFeatures.None;

    public bool TakesMsdp => (_server.Agreed & TelnetFeatures.Msdp) != TelnetFeatures.None;

    /// <summary>False when the client has sent more requests than allowed.</summary>
    public bool IsWithinLimits => !_answers.IsExhausted;

    /// <summary>Sends the offers.</summary>
    public void Start()
    {
        ReadOnlySpan<byte> ours =
        [
            TelnetCode.SuppressGoAheadOption, TelnetCode.EndOfRecordOption, TelnetCode.CharsetOption, TelnetCode.GmcpOption, TelnetCode.CompressionOption,
            TelnetCode.InputCompressionOption, TelnetCode.ServerStatusOption, TelnetCode.MsdpOption,
        ];
        ReadOnlySpan<byte> theirs = [TelnetCode.TerminalTypeOption, TelnetCode.WindowSizeOption, TelnetCode.EnvironmentOption];
        foreach (var option in theirs)
            Offer(ref _client, TelnetCode.Do, option);
        foreach (var option in ours)
            Offer(ref _server, TelnetCode.Will, option);
        Flush();
    }

    /// <summary>Notes that the client has sent a command.</summary>
    public void NoteCommand()
    {
        if (_terminal.SpeaksTelnet)
            return;
        _terminal.SpeaksTelnet = true;
        _terminal.Echo.Begin(_answers);
    }

    /// <summary>Handles WILL, WONT, DO or DONT.</summary>
    public void Receive(byte command, byte option)
    {
        if (option == TelnetCode.EchoOption && command is TelnetCode.Do or TelnetCode.Dont)
        {
            _terminal.Echo.Receive(command == TelnetCode.Do, _answers);
            return;
        }

        var feature = FeatureOf(option);
        var isServers = command is TelnetCode.Do or TelnetCode.Dont;
        ref var side = ref isServers ? ref _server : ref _client;
        var before = side.Agreed;
        if (command == TelnetCode.Do && feature is TelnetFeatures.Compression or TelnetFeatures.InputCompression && side.Supports(feature) && (before & feature) == TelnetFeatures.None
            && _connections?.TryCompress(_connection) is false)
        {
            side.Forbid(feature);
        }

        var answer = command is TelnetCode.Will or TelnetCode.Do ? side.ReceiveYes(feature) : side.ReceiveNo(feature);
        if (answer is { } agrees)
            _answers.Add(TelnetCode.Interpret, AnswerFor(isServers, agrees), option);
        if (side.Agreed == before)
            return;
        if (isServers)
            ApplyServerOption(feature, isOn: side.Agreed > before);
        else if (feature == TelnetFeatures.TerminalType && side.Agreed > before)
            (_terminalTypes ??= new TerminalTypes(_terminal)).Begin(_answers);
        else if (feature == TelnetFeatures.Environment && side.Agreed > before)
            (_variables ??= new ClientVariables(_terminal)).Begin(_answers);
        SetFormat();
    }

    /// <summary>Handles a subnegotiation of an option other than GMCP. It ignores options that were not agreed.</summary>
    public void ReceiveSubnegotiation(byte option, ReadOnlySpan<byte> body)
    {
        var agreed = option == TelnetCode.CharsetOption ? _client.Agreed | _server.Agreed : _client.Agreed;
        var feature = FeatureOf(option) & agreed;
        if (feature == TelnetFeatures.WindowSize && TryReadWindowSize(body, out var width, out var height))
            (_terminal.Width, _terminal.Height) = (width, height);
        else if (feature == TelnetFeatures.TerminalType)
            _terminalTypes!.Receive(body, _answers);
        else if (feature == TelnetFeatures.Environment)
            ReceiveVariables(body);
        else if (feature == TelnetFeatures.Charset)
            ReceiveCharset(body);
    }

    /// <summary>Handles the start of compressed input. A start counts as a request, because each takes a new inflater.</summary>
    /// <returns>False when compressed input was not agreed.</returns>
    public bool TryStartCompressedInput()
    {
        _answers.Add();
        return (_server.Agreed & TelnetFeatures.InputCompression) != TelnetFeatures.None;
    }

    /// <summary>Answers AYT with visible text, as RFC 854 requires.</summary>
    public void AnswerAreYouThere() => _answers.AddText("\r\n[Yes, the server is here.]\r\n"u8);

    /// <summary>Sends the answers.</summary>
    public void Flush() => _answers.Flush();

    private void Offer(ref OptionSide side, byte command, byte option)
    {
        var feature = FeatureOf(option);
        if ((feature & _options.Offered & side.Supported) == TelnetFeatures.None)
            return;

        // A client compresses its input right behind its DO and does not wait for an answer, so a refusal would come too late.
        if (feature == TelnetFeatures.InputCompression && _connections is { MayCompress: false })
            return;
        side.Ask(feature);
        _answers.Add(TelnetCode.Interpret, command, option);
    }

    private void ApplyServerOption(TelnetFeatures feature, bool isOn)
    {
        if (feature == TelnetFeatures.Charset && isOn)
        {
            _isCharsetAsked = true;
            _answers.Add(CharsetRequests.Request.Span);
        }
        else if (feature == TelnetFeatures.Compression)
        {
            ApplyCompression(isOn);
        }
        else if (feature == TelnetFeatures.ServerStatus && isOn)
        {
            // The status is sent once, so that repeated requests cost nothing more.
            _server.Forbid(TelnetFeatures.ServerStatus);
            _answers.Add(ServerStatuses.Frame(_options.ServerStatus!()));
        }
    }

    /// <summary>Starts compression right after its subnegotiation, or ends it right after the answer.</summary>
    private void ApplyCompression(bool isOn)
    {
        if (isOn)
        {
            _answers.Add(TelnetCode.Interpret, TelnetCode.Subnegotiation, TelnetCode.CompressionOption, TelnetCode.Interpret, TelnetCode.SubnegotiationEnd);
            _answers.Flush(StartCompression);
        }
        else
        {
            // Compression starts once per connection: repeated starts would cost the client little and the server much.
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

    private void ReceiveVariables(ReadOnlySpan<byte> body)
    {
        // What both sides agreed on by RFC 2066 counts more.
        if (_variables!.Receive(body, _answers) is not { } named || _isCharsetChosen || (_options.Supported & TelnetFeatures.Charset) == TelnetFeatures.None)
            return;
        _terminal.Charset = named;
        SetFormat();
    }

    private void ReceiveCharset(ReadOnlySpan<byte> body)
    {
        if (CharsetRequests.IsRequest(body))
        {
            // RFC 2066: when both sides ask at once, the server rejects the client's request, and the client answers the server's.
            var name = _isCharsetAsked ? default : CharsetRequests.Choose(body);
            if (CharsetRequests.TryParse(name, out var chosen))
                (_terminal.Charset, _isCharsetChosen) = (chosen, true);
            CharsetRequests.AddAnswer(_answers, name);
        }
        else
        {
            if (_isCharsetAsked && CharsetRequests.TryReadAccepted(body, out var accepted))
                (_terminal.Charset, _isCharsetChosen) = (accepted, true);
            _isCharsetAsked = false;
        }

        SetFormat();
    }

    private void SetFormat()
    {
        var ending = (_server.Agreed & TelnetFeatures.EndOfRecord) != TelnetFeatures.None ? PromptEnding.EndOfRecord
            : (_server.Agreed & TelnetFeatures.SuppressGoAhead) != TelnetFeatures.None || !_options.SendsGoAhead ? PromptEnding.None
            : PromptEnding.GoAhead;
        (_terminal.TakesGmcp, _terminal.TakesMsdp) = (TakesGmcp, TakesMsdp);
        _connection.Format = WireFormat.Telnet(_terminal.Charset, ending, TakesGmcp, TakesMsdp);
    }

    // NAWS, RFC 1073: the width in characters and the height in lines, 16 bits each; 0 when not known.
    private static bool TryReadWindowSize(ReadOnlySpan<byte> body, out int width, out int height)
    {
        (width, height) = (0, 0);
        if (body.Length != 2 * sizeof(ushort))
            return false;
        width = BinaryPrimitives.ReadUInt16BigEndian(body);
        height = BinaryPrimitives.ReadUInt16BigEndian(body[sizeof(ushort)..]);
        return true;
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
        TelnetCode.EnvironmentOption => TelnetFeatures.Environment,
        TelnetCode.CharsetOption => TelnetFeatures.Charset,
        TelnetCode.CompressionOption => TelnetFeatures.Compression,
        TelnetCode.InputCompressionOption => TelnetFeatures.InputCompression,
        TelnetCode.GmcpOption => TelnetFeatures.Gmcp,
        TelnetCode.ServerStatusOption => TelnetFeatures.ServerStatus,
        TelnetCode.MsdpOption => TelnetFeatures.Msdp,
        _ => TelnetFeatures.None,
    };
}

/// <summary>What the server reports about itself (MSSP, the MUD Server Status Protocol).</summary>
internal static class ServerStatuses
{
    private const byte Variable = 1;
    private const byte Value = 2;

    /// <summary>The subnegotiation with all names and values. Entries with null are left out. Control characters, which would end a name or a value, are removed.</summary>
    public static ReadOnlySpan<byte> Frame(IEnumerable<KeyValuePair<string, string>> status)
    {
        var bytes = new List<byte> { TelnetCode.Interpret, TelnetCode.Subnegotiation, TelnetCode.ServerStatusOption };
        string? before = null;
        foreach (var (name, value) in status)
        {
            // A missing key of a configuration gives null, whatever the type says.
            if (name is null || value is null)
                continue;
            if (name != before)
                bytes.AddRange([Variable, .. ToBytes(name)]);
            bytes.AddRange([Value, .. ToBytes(value)]);
            before = name;
        }

        return (byte[])[.. bytes, TelnetCode.Interpret, TelnetCode.SubnegotiationEnd];
    }

    // UTF-8 has no byte of 255, so nothing needs to be doubled.
    private static byte[] ToBytes(string text) => Encoding.UTF8.GetBytes(string.Concat(text.Where(static letter => !char.IsControl(letter))));
}

namespace BatchKit.Broadcast.Telnet;

/// <summary>Variables that a client tells about itself (NEW-ENVIRON, RFC 1572): those of MNES, the Mud New-Environ Standard, that a server can use. All others are ignored, IPADDRESS too, because anyone may claim any address.</summary>
internal sealed class ClientVariables(TelnetTerminal terminal)
{
    private const byte Is = 0;
    private const byte Send = 1;
    private const byte Info = 2;

    private const byte Variable = 0;
    private const byte Value = 1;
    private const byte Escape = 2;
    private const byte UserVariable = 3;

    // More than are asked for. What is behind them, or behind the first bytes of a name or value, is ignored.
    private const int MaxVariables = 32;
    private const int MaxBytes = 64;

    // By name: without names a client of RFC 1572 sends its user's name and more.
    private static readonly byte[] Request = RequestFor(Variable);
    private static readonly byte[] UserRequest = RequestFor(UserVariable);

    private bool _hasAskedAgain;

    private static ReadOnlySpan<byte> ClientName => "CLIENT_NAME"u8;

    private static ReadOnlySpan<byte> ClientVersion => "CLIENT_VERSION"u8;

    private static ReadOnlySpan<byte> Charset => "CHARSET"u8;

    private static ReadOnlySpan<byte> Capabilities => "MTTS"u8;

    private static ReadOnlySpan<byte> TerminalType => "TERMINAL_TYPE"u8;

    /// <summary>Asks for the variables.</summary>
    public void Begin(TelnetAnswers answers)
    {
        _hasAskedAgain = false;
        answers.Add(Request);
    }

    /// <summary>Reads what a client answers (IS), in one message or in several, or tells later (INFO).</summary>
    /// <returns>The charset that it names; null for none.</returns>
    public TelnetCharset? Receive(ReadOnlySpan<byte> body, TelnetAnswers answers)
    {
        TelnetCharset? charset = null;
        var hasValue = false;
        if (body is not [Is or Info, .. var rest])
            return null;
        Span<byte> name = stackalloc byte[MaxBytes];
        Span<byte> value = stackalloc byte[MaxBytes];
        for (var variables = 0; variables < MaxVariables && !rest.IsEmpty; variables++)
        {
            var isVariable = rest[0] is Variable or UserVariable;
            var nameBytes = Take(ref rest, name);

            // A variable without a value is not defined.
            if (!isVariable || rest is not [Value, ..])
                continue;
            hasValue = true;
            Apply(name[..nameBytes], value[..Take(ref rest, value)], ref charset);
        }

        // MNES says VAR. Clients that follow RFC 1572, such as Mudlet without MNES, know these names as USERVAR alone.
        if (body[0] == Is && !hasValue && !_hasAskedAgain)
        {
            _hasAskedAgain = true;
            answers.Add(UserRequest);
        }

        return charset;
    }

    private static byte[] RequestFor(byte mark) =>
    [
        TelnetCode.Interpret, TelnetCode.Subnegotiation, TelnetCode.EnvironmentOption, Send,
        mark, .. ClientName, mark, .. ClientVersion, mark, .. Charset, mark, .. Capabilities, mark, .. TerminalType,
        TelnetCode.Interpret, TelnetCode.SubnegotiationEnd,
    ];

    /// <summary>Takes a mark and the bytes behind it, up to the next mark.</summary>
    /// <returns>How many bytes it has copied.</returns>
    private static int Take(ref ReadOnlySpan<byte> rest, scoped Span<byte> destination)
    {
        var (taken, next) = (0, 1);
        while (next < rest.Length && rest[next] is not (Variable or Value or UserVariable))
        {
            if (rest[next] == Escape && ++next == rest.Length)
                break;
            if (taken < destination.Length)
                destination[taken++] = rest[next];
            next++;
        }

        rest = rest[next..];
        return taken;
    }

    private void Apply(ReadOnlySpan<byte> name, ReadOnlySpan<byte> value, ref TelnetCharset? charset)
    {
        var text = TerminalTypes.ReadName(value);
        if (name.SequenceEqual(Charset) && CharsetRequests.TryParse(value, out var named))
            charset = named;
        else if (name.SequenceEqual(Capabilities) && TerminalTypes.TryReadBits(value, out var capabilities))
            terminal.Capabilities = capabilities;
        else if (text.Length > 0 && name.SequenceEqual(ClientName))
            terminal.ClientName = text;
        else if (text.Length > 0 && name.SequenceEqual(ClientVersion))
            terminal.ClientVersion = text;
        else if (text.Length > 0 && name.SequenceEqual(TerminalType))
            terminal.Type = text;
    }
}

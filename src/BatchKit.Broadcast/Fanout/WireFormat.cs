using BatchKit.Broadcast.Telnet;

namespace BatchKit.Broadcast.Fanout;

/// <summary>How messages look on a client's wire. Clients of one format share their bytes.</summary>
internal readonly record struct WireFormat
{
    /// <summary>How many formats there are; <see cref="Index"/> is below it.</summary>
    public const int Count = FirstTelnet + (2 * Charsets * PromptEndings);

    private const int FirstTelnet = 3;
    private const int Charsets = 3;
    private const int PromptEndings = 3;

    private WireFormat(int index) => Index = (byte)index;

    public static WireFormat Raw { get; } = new(0);

    public static WireFormat WebSocketText { get; } = new(1);

    public static WireFormat WebSocketBinary { get; } = new(2);

    public byte Index { get; }

    public bool IsTelnet => Index >= FirstTelnet;

    public TelnetCharset Charset => (TelnetCharset)(TelnetIndex % Charsets);

    public PromptEnding PromptEnding => (PromptEnding)(TelnetIndex / Charsets % PromptEndings);

    public bool TakesGmcp => TelnetIndex / (Charsets * PromptEndings) == 1;

    private int TelnetIndex => Index - FirstTelnet;

    public static WireFormat Telnet(TelnetCharset charset, PromptEnding promptEnding, bool takesGmcp) =>
        new(FirstTelnet + (int)charset + (Charsets * ((int)promptEnding + (PromptEndings * (takesGmcp ? 1 : 0)))));

    public static WireFormat FromIndex(byte index) => new(index);
}

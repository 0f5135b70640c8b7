using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Fuzz;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Tests.Telnet;

/// <summary>What real clients send from their connect to the end of a login, replayed. The files say where it comes from.</summary>
public sealed class RecordedSessionTests : IAsyncDisposable
{
    private readonly BroadcastTransport _transport = new();

    public static TheoryData<string, string> Sessions => new()
    {
        { "tintin", "TINTIN++ 2.02.20 xterm-256color 80x24 Utf8 783 compressed" },
        { "telnet", "  XTERM-256COLOR 80x24 Utf8 0 plain" },
        { "mudlet", "MUDLET 4/17/2 ANSI-TRUECOLOR 100x40 Utf8 2349 compressed gmcp" },
    };

    public ValueTask DisposeAsync() => _transport.DisposeAsync();

    [Theory]
    [MemberData(nameof(Sessions))]
    public async Task A_client_is_known_and_hides_its_password(string session, string known)
    {
        var scene = new TelnetScene(new TelnetOptions { ServerStatus = static () => [] });
        _transport.Connections.Add(scene.Connection);
        var (records, seen, hidden) = (new List<string>(), 0, false);

        foreach (var (kind, bytes) in Read(session))
        {
            switch (kind)
            {
                case "server":
                    Assert.Equal(Convert.ToHexString(bytes), Convert.ToHexString(scene.Sent[seen..]));
                    seen = scene.Sent.Length;
                    break;
                case "client":
                    records.AddRange(scene.Read(bytes).Select(record => record.Text));
                    hidden |= scene.Terminal.HidesInput;
                    break;
                default:
                    var header = kind == "hide" ? TelnetMessages.HideInput : TelnetMessages.ShowInput;
                    await _transport.SendAsync(Deliveries.To(scene.Connection.Handle, new BatchMessage(default, header)));
                    break;
            }
        }

        Assert.Null(scene.Failure);
        Assert.True(hidden);
        Assert.False(scene.Terminal.HidesInput);
        Assert.Equal(["login", "lantern-1"], records.Where(record => !record.StartsWith("Core.", StringComparison.Ordinal)).Select(record => record.Split(' ')[0]));
        Assert.Equal(known, Describe(scene.Terminal));
    }

    [Theory]
    [MemberData(nameof(Sessions))]
    public void A_session_may_end_at_any_byte(string session, string known)
    {
        Assert.NotEmpty(known);
        var bytes = Read(session).Where(step => step.Kind == "client").SelectMany(step => step.Bytes).ToArray();

        for (var length = 1; length <= bytes.Length; length++)
            FuzzTarget.Run("telnet", bytes[..length]);
    }

    private static string Describe(TelnetTerminal terminal) =>
        $"{terminal.ClientName} {terminal.ClientVersion} {terminal.Type} {terminal.Width}x{terminal.Height} {terminal.Charset} {(int)terminal.Capabilities} "
        + (terminal.IsCompressed ? "compressed" : "plain") + (terminal.TakesGmcp ? " gmcp" : "");

    /// <summary>Reads the steps of a session: a word, and for the server and the client their bytes as <see cref="TelnetScene.Bytes"/> reads them. A line with a # is a comment.</summary>
    private static List<(string Kind, byte[] Bytes)> Read(string session) =>
    [
        .. from line in File.ReadLines(Path.Combine(AppContext.BaseDirectory, "Telnet", "Sessions", $"{session}.txt"))
           where line.Length > 0 && line[0] != '#'
           let parts = line.Split(' ', 2)
           select (parts[0], TelnetScene.Bytes(parts.Length > 1 ? parts[1] : "")),
    ];
}

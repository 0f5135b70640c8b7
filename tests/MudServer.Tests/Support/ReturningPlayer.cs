using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.RegularExpressions;

namespace MudServer.Tests.Support;

/// <summary>A player's telnet program that comes back by another gateway, with the token that it got, and goes on.</summary>
/// <param name="name">The player's name.</param>
/// <param name="gateways">Where to connect; asked at each attempt.</param>
internal sealed partial class ReturningPlayer(string name, Func<IPEndPoint> gateways) : IDisposable
{
    private readonly List<string> _lines = [];
    private TcpClient? _client;
    private StreamReader? _reader;
    private string? _token;
    private int _returns;

    public string Name => name;

    /// <summary>Each line that came, once for each time that it came, without prompts and negotiation.</summary>
    public IReadOnlyList<string> Lines => _lines;

    public int Returns => _returns;

    /// <summary>Connects, and steps ashore under its name.</summary>
    public async Task LoginAsync()
    {
        await ConnectAsync();
        await AskAsync($"connect {name}", line => line.StartsWith("Exits: ", StringComparison.Ordinal));
    }

    /// <summary>Sends a command, and reads until a line ends its answer. When the connection ends before, it comes back, and sends the command again unless the answer has come with what waited.</summary>
    public async Task AskAsync(string command, Func<string, bool> isEnd)
    {
        var isAnswered = false;
        while (!isAnswered && !(await TrySendAsync(command) && await ReadUntilAsync(isEnd)))
            isAnswered = await ReturnAsync(isEnd);
    }

    /// <summary>Reads until a line has come, on as many connections as it takes.</summary>
    public async Task WaitForAsync(string line)
    {
        while (!_lines.Contains(line, StringComparer.Ordinal) && !await ReadUntilAsync(read => read == line))
            await ReturnAsync(static _ => false);
    }

    public void Dispose()
    {
        _reader?.Dispose();
        _client?.Dispose();
    }

    // The mark for the web page; IAC and NOP, which asks an idle client whether it is still there; IAC and WILL, WONT, DO or DONT with an option; a subnegotiation up to IAC SE; a prompt, which ends with IAC GA.
    [GeneratedRegex("\u001b\\[0m|\u00ff(?:\u00f1|[\u00fb-\u00fe].|\u00fa.*?\u00ff\u00f0)|> \u00ff\u00f9", RegexOptions.Singleline | RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex NoText { get; }

    /// <returns>True when the line was among what waited for the player.</returns>
    private async Task<bool> ReturnAsync(Func<string, bool> isEnd)
    {
        var before = _lines.Count;
        do
        {
            var token = _token ?? throw new InvalidOperationException($"{name} was disconnected without a token, after: {string.Join(" | ", _lines.TakeLast(5))}");
            await ConnectAsync();
            _returns++;

            // The answer to the second line comes after all that waited.
            var mark = $"back {_returns}";
            if (await TrySendAsync($"resume {token}\r\nthink {mark}") && await ReadUntilAsync(line => line == mark))
                break;
        }
        while (true);
        return _lines.Skip(before).Any(isEnd);
    }

    private async Task ConnectAsync()
    {
        while (true)
        {
            Dispose();
            _client = new TcpClient();
            try
            {
                await _client.ConnectAsync(gateways()).WithinDeadline();
                _reader = new StreamReader(_client.GetStream(), Encoding.Latin1);
                if (await ReadUntilAsync(static line => line.StartsWith("Type \"connect <name>\"", StringComparison.Ordinal)))
                    return;
            }
            catch (SocketException)
            {
                // The gateway has just stopped listening: there is another one.
            }
        }
    }

    private async Task<bool> TrySendAsync(string command)
    {
        try
        {
            await _client!.Client.SendAsync(Encoding.Latin1.GetBytes($"{command}\r\n")).WithinDeadline();
            return true;
        }
        catch (SocketException)
        {
            return false;
        }
    }

    /// <returns>False when the connection has ended.</returns>
    private async Task<bool> ReadUntilAsync(Func<string, bool> isEnd)
    {
        try
        {
            while (await _reader!.ReadLineAsync().WithinDeadline() is { } raw)
            {
                var line = NoText.Replace(raw, string.Empty);
                _lines.Add(line);
                if (line.StartsWith("  resume ", StringComparison.Ordinal))
                    _token = line.Trim().Split(' ')[1];
                if (isEnd(line))
                    return true;
            }
        }
        catch (IOException)
        {
            // The connection was reset.
        }

        return false;
    }
}

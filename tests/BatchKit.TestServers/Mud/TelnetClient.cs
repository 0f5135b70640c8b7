using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.RegularExpressions;

namespace BatchKit.TestServers.Mud;

/// <summary>A player's telnet program: sends lines, and reads up to the prompt.</summary>
public sealed partial class TelnetClient : IDisposable
{
    // GA, which follows a prompt and nothing else, read as Latin-1.
    private const string Prompt = "> \u00ff\u00f9";

    private static readonly TimeSpan Limit = TimeSpan.FromMinutes(1);

    private readonly TcpClient _client = new();
    private readonly byte[] _bytes = new byte[64 * 1024];
    private string _waiting = string.Empty;

    private TelnetClient()
    {
    }

    /// <summary>For tests that break it.</summary>
    public Socket Socket => _client.Client;

    /// <summary>Connects.</summary>
    public static async Task<TelnetClient> ConnectAsync(IPEndPoint endPoint)
    {
        var client = new TelnetClient();
        await client._client.ConnectAsync(endPoint).WaitAsync(Limit);
        return client;
    }

    /// <summary>Steps ashore under a name: reads the greeting, connects, and reads the answer.</summary>
    public async Task LoginAsync(string name)
    {
        await ReadToPromptAsync();
        await AskAsync($"connect {name}");
    }

    /// <summary>Sends text as it is.</summary>
    public async Task SendAsync(string text) => await Socket.SendAsync(Encoding.Latin1.GetBytes(text)).WaitAsync(Limit);

    /// <summary>Sends a line and reads the answer, up to its prompt.</summary>
    public async Task<string[]> AskAsync(string line)
    {
        await SendAsync(line + "\r\n");
        return await ReadToPromptAsync();
    }

    /// <summary>Reads the lines up to the next prompt, without what telnet negotiates, and the mark for the web page, which no terminal shows.</summary>
    public async Task<string[]> ReadToPromptAsync()
    {
        var text = await ReadPastAsync(Prompt);
        return Negotiation.Replace(text, string.Empty).Replace("\u001b[0m", string.Empty, StringComparison.Ordinal).Split("\r\n", StringSplitOptions.RemoveEmptyEntries);
    }

    /// <summary>Reads until the text has come, and returns what came before it.</summary>
    public async Task<string> ReadPastAsync(string ending)
    {
        int end;
        while ((end = _waiting.IndexOf(ending, StringComparison.Ordinal)) < 0)
        {
            if (!await TryReadPastAsync(ending))
                throw new EndOfStreamException($"The server closed the connection after: {_waiting}");
        }

        var text = _waiting[..end];
        _waiting = _waiting[(end + ending.Length)..];
        return text;
    }

    /// <summary>Reads until the server closes, closes its own side as telnet does, so that the server need not wait for that, and returns all that came.</summary>
    public async Task<string> ReadToEndAsync()
    {
        while (await TryReadAsync())
        {
        }

        if (Socket.Connected)
            Socket.Shutdown(SocketShutdown.Send);
        return _waiting;
    }

    /// <inheritdoc/>
    public void Dispose() => _client.Dispose();

    // IAC and WILL, WONT, DO or DONT with an option, or a subnegotiation up to IAC SE.
    [GeneratedRegex("\u00ff(?:[\u00fb-\u00fe].|\u00fa.*?\u00ff\u00f0)", RegexOptions.Singleline | RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex Negotiation { get; }

    private async Task<bool> TryReadPastAsync(string ending)
    {
        try
        {
            return await TryReadAsync();
        }
        catch (TimeoutException exception)
        {
            throw new TimeoutException($"\"{ending}\" did not come within {Limit}. What came last: {_waiting[^Math.Min(_waiting.Length, 200)..].ReplaceLineEndings(" | ")}", exception);
        }
    }

    private async Task<bool> TryReadAsync()
    {
        var count = await Socket.ReceiveAsync(_bytes).WaitAsync(Limit);
        _waiting += Encoding.Latin1.GetString(_bytes, 0, count);
        return count > 0;
    }
}

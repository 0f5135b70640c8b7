using System.Globalization;
using System.Net.WebSockets;
using System.Text;
using System.Threading.Channels;

namespace BatchKit.IntegrationTests.Walk;

/// <summary>The page of a recipe's or template's chat, as a browser has it open.</summary>
internal sealed class ChatPage : IAsyncDisposable
{
    private static readonly TimeSpan Patience = TimeSpan.FromMilliseconds(500);

    private readonly ClientWebSocket _socket = new();
    private readonly Channel<string> _arrived = Channel.CreateUnbounded<string>();
    private readonly List<string> _lines = [];
    private Task _reading = Task.CompletedTask;

    public IReadOnlyList<string> Lines => _lines;

    public static async Task<ChatPage> OpenAsync(int port)
    {
        var address = string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{port}/");
        using var http = new HttpClient();
        Assert.Contains("new WebSocket(", await http.GetStringAsync(new Uri($"http://{address}")).WithinDeadline(), StringComparison.Ordinal);
        var page = new ChatPage();
        await page._socket.ConnectAsync(new Uri($"ws://{address}chat"), CancellationToken.None).WithinDeadline();
        page._reading = page.ReadAsync();
        return page;
    }

    public Task TypeAsync(string line) => _socket.SendAsync(Encoding.UTF8.GetBytes(line), WebSocketMessageType.Text, endOfMessage: true, CancellationToken.None);

    // A group's members and nodes get what is written after they have joined, so the first lines may be for no one.
    public async Task<bool> TypeUntilReadAsync(string name, ChatPage other)
    {
        for (var line = 1; line <= 60; line++)
        {
            await TypeAsync($"{name} {line}");
            using var patience = new CancellationTokenSource(Patience);
            if (await other.TryReadUntilAsync(text => text.StartsWith(name, StringComparison.Ordinal), patience.Token))
                return true;
        }

        return false;
    }

    public async Task ReadUntilAsync(string line)
    {
        using var deadline = new CancellationTokenSource(Deadline.Time);
        Assert.True(await TryReadUntilAsync(text => text == line, deadline.Token), $"\"{line}\" did not arrive.");
    }

    public async ValueTask DisposeAsync()
    {
        _socket.Abort();
        await _reading.WithinDeadline();
        _socket.Dispose();
    }

    private async Task<bool> TryReadUntilAsync(Predicate<string> isIt, CancellationToken cancellationToken)
    {
        try
        {
            do
                _lines.Add(await _arrived.Reader.ReadAsync(cancellationToken));
            while (!isIt(_lines[^1]));
            return true;
        }
        catch (OperationCanceledException)
        {
            return false;
        }
    }

    private async Task ReadAsync()
    {
        var buffer = new byte[1024];
        try
        {
            while (await _socket.ReceiveAsync(buffer, CancellationToken.None) is { MessageType: WebSocketMessageType.Text } received)
                _arrived.Writer.TryWrite(Encoding.UTF8.GetString(buffer, 0, received.Count));
            // As browsers do when the server closes: it waits for this.
            await _socket.CloseOutputAsync(WebSocketCloseStatus.NormalClosure, statusDescription: null, CancellationToken.None);
        }
        catch (Exception exception) when (exception is WebSocketException or OperationCanceledException)
        {
            // The page was closed.
        }
    }
}

using Microsoft.AspNetCore.Http.Connections;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Client;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.SignalR.Tests.Support;

/// <summary>A stock client, and the texts that it has received.</summary>
public sealed class HubClientConnection : IAsyncDisposable
{
    private readonly Lock _lock = new();
    private readonly List<string> _texts = [];

    private HubClientConnection(HubConnection connection)
    {
        Connection = connection;
        connection.On<string>(TestHub.Receive, Add);
    }

    public HubConnection Connection { get; }

    public string Id => Connection.ConnectionId!;

    /// <summary>What it has received, without the messages that ended a wait.</summary>
    public string[] Texts
    {
        get
        {
            lock (_lock)
                return [.. _texts.Where(text => !text.StartsWith("end ", StringComparison.Ordinal))];
        }
    }

    /// <summary>Connects a client.</summary>
    /// <param name="address">The hub's address.</param>
    /// <param name="isBinary">MessagePack instead of JSON.</param>
    /// <param name="user">The user's identifier.</param>
    /// <param name="transport">The transport.</param>
    /// <param name="reconnects">Whether it reconnects statefully.</param>
    /// <param name="configure">Registers what the client answers.</param>
    public static async Task<HubClientConnection> ConnectAsync(
        Uri address, bool isBinary = false, string? user = null, HttpTransportType transport = HttpTransportType.WebSockets, bool reconnects = false, Action<HubConnection>? configure = null)
    {
        var builder = new HubConnectionBuilder().WithUrl(user is null ? address : new Uri($"{address}?user={user}"), transport);
        if (isBinary)
            builder.AddMessagePackProtocol();
        if (reconnects)
            builder.WithStatefulReconnect();
        var client = new HubClientConnection(builder.Build());
        configure?.Invoke(client.Connection);
        await client.Connection.StartAsync().WithinDeadline();

        // SignalR answers the handshake before its hub has the client, so what is sent at once would not reach it. A call is answered after that, if only with an error.
        await Assert.ThrowsAsync<HubException>(() => client.Connection.InvokeAsync("NoSuchMethod")).WithinDeadline();
        return client;
    }

    public Task WaitForAsync(string text) => Until.TrueAsync(() =>
    {
        lock (_lock)
            return _texts.Contains(text);
    });

    public ValueTask DisposeAsync() => Connection.DisposeAsync();

    private void Add(string text)
    {
        lock (_lock)
            _texts.Add(text);
    }
}

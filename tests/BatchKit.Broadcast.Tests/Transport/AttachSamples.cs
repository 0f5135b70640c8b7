using System.IO.Pipelines;
using System.Net.WebSockets;
using System.Text;
using Microsoft.AspNetCore.Connections;

namespace BatchKit.Broadcast.Tests.Transport;

/// <summary>Servers of other code that attach their connections; the package's README shows them. Each puts its client into the group "lobby" and passes on what it sends.</summary>
internal sealed class AttachSamples(BroadcastTransport transport, IOutputBuffer output)
{
    public async Task ServeStreamAsync(Stream stream)
    {
        await using var client = transport.Attach(stream);
        output.Write(client.Handle, ControlMessage.JoinGroup("lobby"));
        using var lines = new StreamReader(stream, leaveOpen: true);
        try
        {
            while (await lines.ReadLineAsync(client.Ending) is { } line)
                output.Write(OutputHandle.Named("lobby"), $"{PlayerText.Filter(line)}\r\n");
        }
        catch (OperationCanceledException) when (client.Ending.IsCancellationRequested)
        {
            // The game closed the connection, or the client did not read.
        }
    }

    public async Task ServePipeAsync(IDuplexPipe pipe)
    {
        await using var client = transport.Attach(pipe);
        output.Write(client.Handle, ControlMessage.JoinGroup("lobby"));
        using var ending = client.Ending.Register(pipe.Input.CancelPendingRead);
        while (await pipe.Input.ReadAsync() is { IsCompleted: false, IsCanceled: false } read)
        {
            foreach (var part in read.Buffer)
                output.Write(OutputHandle.Named("lobby"), PlayerText.Filter(Encoding.UTF8.GetString(part.Span), keepsLineFeeds: true));
            pipe.Input.AdvanceTo(read.Buffer.End);
        }
    }

    public async Task ServeWebSocketAsync(WebSocket socket)
    {
        var client = transport.Attach(socket);
        output.Write(client.Handle, ControlMessage.JoinGroup("lobby"));
        var buffer = new byte[4096];
        while (await socket.ReceiveAsync(buffer, CancellationToken.None) is { MessageType: not WebSocketMessageType.Close } received)
            output.Write(OutputHandle.Named("lobby"), PlayerText.Filter(Encoding.UTF8.GetString(buffer, 0, received.Count)));
        await client.DisposeAsync();
    }

    public async Task ServeDelegateAsync(Func<string, CancellationToken, Task> sendText, IAsyncEnumerable<string> texts)
    {
        await using var client = transport.Attach(async (bytes, cancellationToken) => await sendText(Encoding.UTF8.GetString(bytes.Span), cancellationToken));
        output.Write(client.Handle, ControlMessage.JoinGroup("lobby"));
        await foreach (var text in texts.WithCancellation(client.Ending))
            output.Write(OutputHandle.Named("lobby"), PlayerText.Filter(text));
    }

    /// <summary>For Kestrel: <c>listen.UseConnectionHandler&lt;LobbyConnections&gt;()</c>.</summary>
    internal sealed class LobbyConnections(BroadcastTransport transport, IOutputBuffer output) : ConnectionHandler
    {
        public override async Task OnConnectedAsync(ConnectionContext connection)
        {
            await using var client = transport.Attach(connection);
            output.Write(client.Handle, ControlMessage.JoinGroup("lobby"));
            using var ending = client.Ending.Register(connection.Transport.Input.CancelPendingRead);
            while (await connection.Transport.Input.ReadAsync() is { IsCompleted: false, IsCanceled: false } read)
            {
                foreach (var part in read.Buffer)
                    output.Write(OutputHandle.Named("lobby"), PlayerText.Filter(Encoding.UTF8.GetString(part.Span), keepsLineFeeds: true));
                connection.Transport.Input.AdvanceTo(read.Buffer.End);
            }
        }
    }
}

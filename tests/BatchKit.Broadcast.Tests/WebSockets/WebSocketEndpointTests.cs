using System.Net.WebSockets;
using System.Text;

namespace BatchKit.Broadcast.Tests.WebSockets;

public sealed class WebSocketEndpointTests
{
    [Fact]
    public async Task A_message_is_answered_by_one_message()
    {
        await using var host = await WebSocketHost.StartAsync();
        using var client = new ClientWebSocket();
        await client.ConnectAsync(host.WebSocketAddress, default).WithinDeadline();

        await client.SendAsync(Encoding.UTF8.GetBytes("hello"), WebSocketMessageType.Text, endOfMessage: true, default).WithinDeadline();
        var buffer = new byte[100];
        var received = await client.ReceiveAsync(buffer, default).WithinDeadline();

        Assert.Equal("hello", Encoding.UTF8.GetString(buffer, 0, received.Count));
        Assert.Equal(WebSocketMessageType.Text, received.MessageType);
        Assert.True(received.EndOfMessage);
        await client.CloseAsync(WebSocketCloseStatus.NormalClosure, "", default).WithinDeadline();
        Assert.Equal(WebSocketCloseStatus.NormalClosure, client.CloseStatus);
    }
}

using BatchKit.TransportSpecification.Support;

namespace BatchKit.Broadcast.Tests.WebSockets;

public sealed class DirectWriteTests
{
    [Fact]
    public async Task A_client_on_plain_HTTP_is_written_to_directly_once_it_answered()
    {
        await using var host = await WebSocketHost.StartAsync();
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);

        await host.Log.NextAsync("is written to directly").WithinDeadline();
        await client.SendTextAsync("hello");

        Assert.Equal("hello", await client.ReadTextAsync());
    }
}

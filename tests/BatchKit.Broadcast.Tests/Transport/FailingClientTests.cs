using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Broadcast.WebSockets;
using BatchKit.Testing;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tests.Transport;

/// <summary>What goes wrong with one client of a send stays with that client.</summary>
public sealed class FailingClientTests : IAsyncDisposable
{
    private const string Secret = "the secret of one client ";

    private readonly BroadcastTransport _transport = new();

    public ValueTask DisposeAsync() => _transport.DisposeAsync();

    [Theory]
    [InlineData(10)]
    [InlineData(20_000)]
    public async Task Bytes_for_a_client_that_fails_never_reach_another(int count)
    {
        var clients = Enumerable.Range(0, count).Select(_ => new FakeClient(_transport).Join("hall")).ToArray();
        Fail(clients[0]);

        var failure = await Record.ExceptionAsync(() => _transport.SendAsync(Deliveries.To(clients[0].Handle, Secret), Deliveries.ToGroup("hall", "hello")));

        Assert.DoesNotContain(clients, client => client.Text.Contains(Secret, StringComparison.Ordinal));
        Assert.Null(failure);
        Assert.Equal("", clients[0].Text);
        Assert.All(clients[1..], client => Assert.Equal("hello", client.Text));
    }

    [Theory]
    [InlineData(10, true)]
    [InlineData(1000, true)]
    [InlineData(10, false)]
    public async Task A_failed_client_is_counted_and_the_next_send_is_whole(int count, bool throwsAtAbort)
    {
        var clients = Enumerable.Range(0, count).Select(_ => new FakeClient(_transport).Join("hall", "guild")).ToArray();
        foreach (var client in clients.Where((_, index) => index % 5 == 0))
            Fail(client, throwsAtAbort);

        await _transport.SendAsync(Deliveries.ToGroup("hall", "one "), Deliveries.ToGroup("guild", "two "));
        await _transport.SendAsync(Deliveries.ToGroup("guild", "three "), Deliveries.ToGroup("hall", "four"));

        Assert.All(clients.Where((_, index) => index % 5 != 0), client => Assert.Equal("one two three four", client.Text));
        foreach (var client in clients.Where((_, index) => index % 5 == 0))
            Assert.Equal((true, DisconnectReason.ConnectionLost), (client.Connection.IsAborted, await client.Connection.Closing.WithinDeadline()));
        var counted = _transport.GetStatistics();
        Assert.Equal((count / 5 * 4 * 4, count / 5 * 4), (counted.SentMessages, counted.FailedMessages));
        counted.AssertAddsUp();
    }

    [Fact]
    public async Task A_logger_that_throws_at_a_clients_end_stops_no_other_client()
    {
        var neighbours = Enumerable.Range(0, 10).Select(_ => new FakeClient(_transport).Join("hall")).ToArray();
        var webSocket = AddWebSocket(new ThrowingLoggers());
        _transport.Groups.Join(webSocket, "hall");

        var large = new string('x', _transport.MaxMessageBytes);
        for (var send = 0; send < 3; send++)
            await _transport.SendAsync(Deliveries.To(webSocket.Handle, Secret), Deliveries.ToGroup("hall", large));
        await webSocket.Output.Ended.WithinDeadline();

        Assert.Equal(DisconnectReason.SlowConsumer, await webSocket.Closing.WithinDeadline());
        Assert.All(neighbours, client => Assert.Equal(3L * large.Length, client.Text.Length));
        _transport.GetStatistics().AssertAddsUp();
    }

    [Fact]
    public async Task A_drain_closes_the_clients_beside_one_that_cannot_be_aborted()
    {
        var clients = Enumerable.Range(0, 3).Select(_ => new FakeClient(_transport)).ToArray();
        foreach (var client in clients)
            client.Wire.Limit(0);
        clients[0].Wire.AbortFailure = new InvalidOperationException("Not what a wire should throw.");
        await _transport.SendAsync([.. clients.Select(client => Deliveries.To(client.Handle, "waits"))]);

        await _transport.DrainAsync(new CancellationToken(canceled: true)).WithinDeadline();

        Assert.All(clients, client => Assert.True(client.Wire.IsAborted));
    }

    private static void Fail(FakeClient client, bool throwsAtAbort = true)
    {
        client.Wire.AbortFailure = throwsAtAbort ? new InvalidOperationException("Not what a wire should throw.") : null;
        client.Wire.Break();
    }

    // Its output waits for the choice of a way, and the choice is logged when it is aborted.
    private ClientConnection AddWebSocket(ILogger logger)
    {
        var handle = _transport.Connections.NextHandle();
        var wire = new UpgradedWire(Stream.Null, socket: null, new OutputPath(handle, logger), new UpgradedEnding(new DefaultHttpContext()));
        var connection = new ClientConnection(
            handle, ClientProtocol.WebSocket, new ConnectionOrigin(RemoteEndPoint: null, IsSecure: false),
            new SendQueue(wire, _transport.Limits, _transport.Counters, TimeProvider.System), WireFormat.WebSocketText, TimeProvider.System);
        _transport.Connections.Add(connection);
        return connection;
    }
}

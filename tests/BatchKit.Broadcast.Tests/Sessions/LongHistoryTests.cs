using BatchKit.Sessions;

namespace BatchKit.Broadcast.Tests.Sessions;

/// <summary>A real client that comes back to more than its connection's queue holds.</summary>
public sealed class LongHistoryTests
{
    private const int Messages = 3000;

    [Fact]
    public async Task A_client_that_reads_gets_all_of_it_at_one_connection()
    {
        await using var server = new SessionServer(new SessionOptions { MaxHistoryBytes = 4 << 20 }, sendBufferBytes: 4096);
        await server.Listener.StartAsync(CancellationToken.None);
        using var mayConnect = new ManualResetEventSlim(initialState: true);
        await using var client = new SessionTcpClient(() =>
        {
            mayConnect.Wait();
            return server.Listener.EndPoint;
        });
        client.Start();
        await Until.TrueAsync(() => client.Client.Token is not null);
        var session = server.Find(client.Client.Token!);
        mayConnect.Reset();
        client.Cut();
        await Until.TrueAsync(() => session.Connection.IsNone);
        for (var message = 0; message < Messages; message++)
            await server.Output.WriteAsync(session.Handle, new string('x', 1022) + "\r\n");
        await server.Output.FlushAsync().WithinDeadline();

        mayConnect.Set();
        await Until.ReachedAsync(() => Task.FromResult(client.Last), Messages);

        Assert.Equal((2, 0, 0), (client.Arrivals, session.LostMessages, server.Transport.GetStatistics().SlowConsumerDisconnects));
    }
}

using BatchKit.Broadcast.WebSockets;
using BatchKit.Testing;
using Microsoft.AspNetCore.Connections.Features;

namespace BatchKit.Broadcast.Tests.WebSockets;

public sealed class LingeringEndTests
{
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(5);

    [Fact]
    public void A_connection_that_is_still_there_at_the_limit_is_aborted()
    {
        var clock = new ManualTimeProvider();
        using var connection = new FakeConnection();

        LingeringEnd.Start(connection, Limit, clock);
        clock.Advance(Limit - TimeSpan.FromTicks(1));
        Assert.False(connection.IsAborted);
        clock.Advance(TimeSpan.FromTicks(1));

        Assert.True(connection.IsAborted);
    }

    [Fact]
    public void A_connection_that_has_ended_leaves_no_timer()
    {
        var clock = new ManualTimeProvider();
        using var connection = new FakeConnection();

        LingeringEnd.Start(connection, Limit, clock);
        connection.End();

        Assert.Equal(0, clock.ArmedTimers);
        Assert.False(connection.IsAborted);
    }

    [Fact]
    public async Task A_connection_that_was_written_to_through_the_stream_lingers_and_is_forgotten_when_it_ends()
    {
        var clock = new ManualTimeProvider();
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { TimeProvider = clock, Endpoint = { WritesDirectly = false } });
        var timers = clock.ArmedTimers;
        using var client = await RawClient.ConnectAsync(host.EndPoint);

        await client.SendAsync(RawFrame.MaskedClose(1000));
        Assert.Equal(1000, await client.ReadCloseAsync());
        Assert.Null(await client.TryReadFrameAsync());
        client.Dispose();
        await host.EveryoneGoneAsync();
        await Until.TrueAsync(() => clock.ArmedTimers <= timers);
    }

    private sealed class FakeConnection : IConnectionLifetimeFeature, IDisposable
    {
        private readonly CancellationTokenSource _closed = new();

        public bool IsAborted { get; private set; }

        public CancellationToken ConnectionClosed
        {
            get => _closed.Token;
            set => throw new NotSupportedException();
        }

        public void Abort() => IsAborted = true;

        public void End() => _closed.Cancel();

        public void Dispose() => _closed.Dispose();
    }
}

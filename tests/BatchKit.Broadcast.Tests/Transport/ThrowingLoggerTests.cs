using System.Net;
using System.Net.Sockets;
using System.Threading.Channels;
using BatchKit.Broadcast.Tcp;
using BatchKit.Broadcast.Tests.Receiving;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Broadcast.Tests.Tcp;
using BatchKit.Testing;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tests.Transport;

/// <summary>What a logger throws ends no connection, no listener and no process, and the health tells of it.</summary>
public sealed class ThrowingLoggerTests
{
    private readonly ManualTimeProvider _clock = new();

    [Fact]
    public async Task A_handlers_failure_leaves_no_connection_behind()
    {
        await using var transport = Transport();
        var options = new BroadcastListenerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0) };
        await using var listener = new BroadcastListener(transport, options, _ => new ThrowingHandler(), timeProvider: _clock, logger: new Logger<BroadcastListener>(new ThrowingLoggers()));
        await listener.StartAsync(CancellationToken.None);
        using var client = await LineClient.ConnectAsync(listener.EndPoint);

        await client.SendAsync("throw\n");
        Assert.Equal("", await client.ReadToEndAsync());
        client.Dispose();

        await Until.TrueAsync(() => transport.Connections is { Count: 0, Places: 0 });
        Assert.Equal(1, transport.Connections.DisconnectsFor(DisconnectReason.HandlerFailed));
        Assert.Equal(HealthStatus.Degraded, await HealthOfAsync(transport));
    }

    [Fact]
    public async Task The_sweep_goes_on()
    {
        await using var transport = Transport();
        var idle = new FakeClient(transport, timeProvider: _clock);

        _clock.Advance(TimeSpan.FromSeconds(61));

        Assert.Equal(DisconnectReason.Idle, await idle.Connection.Closing.WithinDeadline());
        Assert.Equal(HealthStatus.Degraded, await HealthOfAsync(transport));
    }

    [Fact]
    public async Task The_accept_loop_goes_on()
    {
        await using var transport = Transport();
        using var stopping = new CancellationTokenSource();
        var outcomes = Channel.CreateUnbounded<Socket?>();
        var taken = Channel.CreateUnbounded<Socket>();
        async ValueTask<Socket> AcceptAsync(CancellationToken token) =>
            await outcomes.Reader.ReadAsync(token) ?? throw new SocketException((int)SocketError.ConnectionReset);
        var logger = transport.Guard(new ThrowingLoggers());
        var running = new AcceptLoop(AcceptAsync, socket => taken.Writer.TryWrite(socket), new IPEndPoint(IPAddress.Loopback, 4000), _clock, logger).RunAsync(stopping.Token);

        outcomes.Writer.TryWrite(null);
        outcomes.Writer.TryWrite(new Socket(SocketType.Stream, ProtocolType.Tcp));

        (await taken.Reader.ReadAsync().WithinDeadline()).Dispose();
        await stopping.CancelAsync();
        await running.WithinDeadline();
        Assert.Equal(1, transport.LoggerFaults.Count);
    }

    private static async Task<HealthStatus> HealthOfAsync(BroadcastTransport transport)
    {
        var check = new BroadcastHealthCheck(transport);
        var context = new HealthCheckContext { Registration = new HealthCheckRegistration("clients", check, failureStatus: null, tags: null) };
        return (await check.CheckHealthAsync(context)).Status;
    }

    private BroadcastTransport Transport() =>
        new(new BroadcastOptions { IdleTimeout = TimeSpan.FromMinutes(1) }, timeProvider: _clock, logger: new Logger<BroadcastTransport>(new ThrowingLoggers()));
}

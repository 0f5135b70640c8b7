using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Receiving;
using BatchKit.Broadcast.Tests.Connections;
using BatchKit.Broadcast.Tests.WebSockets;
using BatchKit.Diagnostics;
using BatchKit.Testing;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.Broadcast.Tests.Receiving;

/// <summary>A client is idle when it sends nothing, and not when the server does not read it.</summary>
public sealed class IdleTests : IAsyncDisposable
{
    private static readonly ReceivedRecord[] Records = [new("one"u8.ToArray())];
    private static readonly TimeSpan Second = TimeSpan.FromSeconds(1);

    private readonly ManualTimeProvider _clock = new();
    private readonly BroadcastTransport _transport;
    private readonly ScriptedTransport _script;
    private readonly OutputBuffer _output;
    private readonly ClientConnection _client;

    public IdleTests()
    {
        _transport = new BroadcastTransport(new BroadcastOptions { IdleTimeout = 10 * Second }, timeProvider: _clock);
        _script = new ScriptedTransport(_transport);
        _output = new OutputBuffer(_script);
        var queue = new SendQueue(new FakeWire(), _transport.Limits, _transport.Counters, _transport.Clock);
        _client = new ClientConnection(_transport.Connections.NextHandle(), ClientProtocol.Tcp, new ConnectionOrigin(RemoteEndPoint: null, IsSecure: false), queue, WireFormat.Raw, _transport.Clock)
        {
            InputLimits = new InputLimits { BytesPerSecond = 1, ByteBurst = 1 },
        };
        _transport.Connections.Add(_client);
    }

    public async ValueTask DisposeAsync()
    {
        await _output.DisposeAsync();
        await _transport.DisposeAsync();
    }

    [Fact]
    public async Task A_client_is_not_idle_while_its_line_is_handled()
    {
        var handler = new WaitingHandler();
        var delivering = Delivery(handler).DeliverAsync(Records, CancellationToken.None).AsTask();

        _clock.Advance(30 * Second);
        handler.Release();
        await delivering.WithinDeadline();

        await AssertIdleAfterAsync(10);
    }

    [Fact]
    public async Task A_client_is_not_idle_while_its_replies_are_sent()
    {
        var stalled = _script.Stall();
        var delivering = Delivery(new EchoHandler(_client, _output)).DeliverAsync(Records, CancellationToken.None).AsTask();
        await stalled.EnteredAsync();

        _clock.Advance(30 * Second);
        stalled.Release();
        await delivering.WithinDeadline();

        await AssertIdleAfterAsync(10);
    }

    [Fact]
    public async Task A_client_is_not_idle_while_its_pace_delays_it()
    {
        var delivery = Delivery(new WaitingHandler());
        _clock.Advance(5 * Second);
        delivery.TryNote(30);
        var reading = delivery.WhenMayReadAsync(hasWaited: true, readBytes: 30).AsTask();

        _clock.Advance(30.1 * Second);
        await reading.WithinDeadline();

        await AssertIdleAfterAsync(5);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_client_is_not_idle_while_its_pace_delays_it_or_its_line_is_handled(bool handlerIsSlower)
    {
        var handler = new WaitingHandler();
        var delivery = Delivery(handler);
        delivery.TryNote(30);
        var reading = delivery.WhenMayReadAsync(hasWaited: true, readBytes: 30).AsTask();
        var delivering = delivery.DeliverAsync(Records, CancellationToken.None).AsTask();

        if (!handlerIsSlower)
            handler.Release();
        _clock.Advance(30.1 * Second);
        await reading.WithinDeadline();
        if (handlerIsSlower)
        {
            _clock.Advance(30 * Second);
            handler.Release();
        }

        await delivering.WithinDeadline();

        await AssertIdleAfterAsync(10);
    }

    private async Task AssertIdleAfterAsync(int seconds)
    {
        Assert.False(_client.IsClosing);
        _clock.Advance((seconds - 1) * Second);
        Assert.False(_client.IsClosing);
        _clock.Advance(2 * Second);
        Assert.Equal(DisconnectReason.Idle, await _client.Closing.WithinDeadline());
    }

    private InboundDelivery Delivery(IConnectionHandler handler) => new(_client, handler, _output, _transport.Options, new LogThrottle(_clock), NullLogger.Instance);

    private sealed class WaitingHandler : IConnectionHandler
    {
        private readonly TaskCompletionSource _released = new();

        public void Release() => _released.SetResult();

        public async ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken) => await _released.Task;
    }
}

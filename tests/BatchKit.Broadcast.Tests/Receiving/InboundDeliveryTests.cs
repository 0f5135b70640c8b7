using BatchKit.Broadcast.Receiving;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Broadcast.Tests.WebSockets;
using BatchKit.Diagnostics;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.Broadcast.Tests.Receiving;

public sealed class InboundDeliveryTests : IAsyncDisposable
{
    private static readonly ReceivedRecord[] Records = [new("one"u8.ToArray()), new("two"u8.ToArray())];

    private readonly BroadcastTransport _transport = new();
    private readonly ScriptedTransport _script;
    private readonly OutputBuffer _output;
    private readonly FakeClient _client;
    private readonly InboundDelivery _delivery;

    public InboundDeliveryTests()
    {
        _script = new ScriptedTransport(_transport);
        _output = new OutputBuffer(_script);
        _client = new FakeClient(_transport);
        _delivery = new InboundDelivery(_client.Connection, new EchoHandler(_client.Connection, _output), _output, new BroadcastOptions(), new LogThrottle(TimeProvider.System), NullLogger.Instance);
    }

    public async ValueTask DisposeAsync()
    {
        await _output.DisposeAsync();
        await _transport.DisposeAsync();
    }

    [Fact]
    public async Task A_client_is_read_on_when_the_replies_to_one_read_are_sent()
    {
        var stalled = _script.Stall();

        var delivering = _delivery.DeliverAsync(Records, CancellationToken.None).AsTask();
        await stalled.EnteredAsync();
        Assert.False(delivering.IsCompleted);
        stalled.Release();

        await delivering.WithinDeadline();
        Assert.Equal("onetwo", _client.Text);
    }

    [Fact]
    public async Task Replies_that_were_given_up_are_no_failure_of_the_handler()
    {
        _script.Answer(BatchOutcome.Refused);

        await _delivery.DeliverAsync(Records, CancellationToken.None).AsTask().WithinDeadline();

        Assert.Equal(2, _output.GetStatistics().FailedMessages);
    }

    [Fact]
    public async Task A_connection_that_ends_waits_for_no_reply()
    {
        var stalled = _script.Stall();
        using var ending = new CancellationTokenSource();
        var delivering = _delivery.DeliverAsync(Records, ending.Token).AsTask();
        await stalled.EnteredAsync();

        await ending.CancelAsync();

        await delivering.WithinDeadline();
        stalled.Release();
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task What_a_handler_wrote_before_it_failed_is_sent(bool failsLater)
    {
        var handler = new FailingHandler(_client.Handle, _output, failsLater);
        var delivery = new InboundDelivery(_client.Connection, handler, _output, new BroadcastOptions(), new LogThrottle(TimeProvider.System), NullLogger.Instance);

        await delivery.DeliverAsync(Records, CancellationToken.None).AsTask().WithinDeadline();

        Assert.Equal(DisconnectReason.HandlerFailed, await _client.Connection.Closing.WithinDeadline());
        Assert.Equal(0, _output.GetStatistics().OpenScopes);
        Assert.Equal("a reply", _client.Text);
    }

    [Fact]
    public async Task A_handler_gets_what_arrives_when_the_buffer_has_stopped()
    {
        var handler = new RecordCollector();
        var delivery = new InboundDelivery(_client.Connection, handler, _output, new BroadcastOptions(), new LogThrottle(TimeProvider.System), NullLogger.Instance);
        await _output.DisposeAsync();

        await delivery.DeliverAsync(Records, CancellationToken.None).AsTask().WithinDeadline();

        Assert.Equal(2, handler.Count);
        Assert.False(_client.Connection.Closing.IsCompleted);
    }
}

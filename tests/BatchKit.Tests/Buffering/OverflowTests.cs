using BatchKit.Testing;
using BatchKit.Tests.Support;

namespace BatchKit.Tests.Buffering;

public sealed class OverflowTests : IAsyncDisposable
{
    private const int Cap = 2048;

    private static readonly byte[] Payload = Some.RandomBytes(300);

    private readonly CollectingTransport _arrived = new();
    private readonly ScriptedTransport _transport;
    private readonly StalledSend _underWay;
    private readonly OutputHandle _first = Some.Connection();
    private readonly List<OutputHandle> _waiting = [];
    private OutputBuffer? _buffer;

    public OverflowTests()
    {
        _transport = new ScriptedTransport(_arrived);
        _underWay = _transport.Stall();
    }

    public async ValueTask DisposeAsync()
    {
        _underWay.Release();
        if (_buffer is not null)
            await _buffer.DisposeAsync();
    }

    [Theory]
    [InlineData(OverflowPolicy.Wait, "TryWrite", "false", 0, 0)]
    [InlineData(OverflowPolicy.Wait, "Write", "throws MaxBufferedBytes", 0, 0)]
    [InlineData(OverflowPolicy.Wait, "WriteAsync", "waits", 0, 0)]
    [InlineData(OverflowPolicy.Fail, "TryWrite", "false", 0, 0)]
    [InlineData(OverflowPolicy.Fail, "Write", "throws MaxBufferedBytes", 0, 0)]
    [InlineData(OverflowPolicy.Fail, "WriteAsync", "throws MaxBufferedBytes", 0, 0)]
    [InlineData(OverflowPolicy.DropNewest, "TryWrite", "false", 1, 0)]
    [InlineData(OverflowPolicy.DropNewest, "Write", "returns", 1, 0)]
    [InlineData(OverflowPolicy.DropNewest, "WriteAsync", "returns", 1, 0)]
    [InlineData(OverflowPolicy.DropOldest, "TryWrite", "true", 0, 1)]
    [InlineData(OverflowPolicy.DropOldest, "Write", "returns", 0, 1)]
    [InlineData(OverflowPolicy.DropOldest, "WriteAsync", "returns", 0, 1)]
    public async Task A_write_to_a_full_buffer_does_what_the_policy_says(OverflowPolicy policy, string method, string expected, long refused, long dropped)
    {
        var buffer = await FillAsync(policy);
        var acceptedBefore = buffer.GetStatistics().AcceptedMessages;
        var newest = Some.Connection();

        var (outcome, task) = OutcomeOfWrite.Write(buffer, method, newest, Payload);

        var statistics = buffer.GetStatistics();
        Assert.Equal(expected, outcome);
        Assert.Equal((refused, dropped), (statistics.RefusedMessages, statistics.DroppedMessages));
        Assert.Equal(policy == OverflowPolicy.DropOldest ? 1 : 0, statistics.AcceptedMessages - acceptedBefore);
        _underWay.Release();
        await task.WithinDeadline();
        await buffer.FlushAsync();
        Assert.Equal(outcome == "waits" || policy == OverflowPolicy.DropOldest ? 1 : 0, _arrived.MessagesFor(newest).Count);
        Assert.Equal(dropped > 0 ? 0 : 1, _arrived.MessagesFor(_waiting[0]).Count);
        Assert.All(_waiting.Skip(1), handle => Assert.Single(_arrived.MessagesFor(handle)));
        Assert.Single(_arrived.MessagesFor(_first));
    }

    [Theory]
    [InlineData("TryWrite", "false")]
    [InlineData("Write", "returns")]
    [InlineData("WriteAsync", "returns")]
    public async Task With_drop_oldest_the_newest_goes_when_all_that_is_older_is_under_way(string method, string expected)
    {
        var buffer = await StallAsync(OverflowPolicy.DropOldest, firstBytes: Cap - 100);

        var (outcome, _) = OutcomeOfWrite.Write(buffer, method, Some.Connection(), Payload);

        var statistics = buffer.GetStatistics();
        Assert.Equal(expected, outcome);
        Assert.Equal((1, 1, 0), (statistics.AcceptedMessages, statistics.RefusedMessages, statistics.DroppedMessages));
    }

    [Fact]
    public async Task Drop_oldest_takes_what_scopes_hold_back_oldest_first_when_nothing_is_queued()
    {
        var buffer = await StallAsync(OverflowPolicy.DropOldest, firstBytes: 1400);
        var (older, newer) = (Some.Connection(), Some.Connection());
        var olderScope = buffer.BeginBufferingScope(older);
        var newerScope = buffer.BeginBufferingScope(newer);
        buffer.Write(older, Payload);
        buffer.Write(newer, Payload);

        var accepted = buffer.TryWrite(newer, Payload);

        Assert.True(accepted);
        Assert.Equal(1, buffer.GetStatistics().DroppedMessages);
        olderScope.Dispose();
        newerScope.Dispose();
        _underWay.Release();
        await buffer.FlushAsync();
        Assert.Equal((0, 2), (_arrived.MessagesFor(older).Count, _arrived.MessagesFor(newer).Count));
    }

    [Fact]
    public async Task A_flush_of_what_drop_oldest_dropped_says_how_many_were_lost()
    {
        var buffer = await FillAsync(OverflowPolicy.DropOldest);
        var flush = buffer.FlushAsync(_waiting[0]);

        buffer.Write(Some.Connection(), Payload);

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => flush.WithinDeadline());
        Assert.Equal(1, failure.LostMessages);
    }

    [Theory]
    [InlineData("TryWrite")]
    [InlineData("Write")]
    [InlineData("WriteAsync")]
    public async Task A_message_larger_than_its_limit_is_refused_naming_the_limit_whatever_the_policy(string method)
    {
        foreach (var policy in Enum.GetValues<OverflowPolicy>())
        {
            await using var buffer = new OutputBuffer(_arrived, new OutputBufferOptions { MaxMessageBytes = 1000, Overflow = policy });

            var (outcome, _) = OutcomeOfWrite.Write(buffer, method, _first, new byte[1001]);

            Assert.Equal("throws MaxMessageBytes", outcome);
            Assert.True(buffer.TryWrite(_first, new byte[1000]));
            Assert.Equal(0, buffer.GetStatistics().RefusedMessages);
        }
    }

    [Theory]
    [InlineData("TryWrite")]
    [InlineData("Write")]
    [InlineData("WriteAsync")]
    public async Task A_message_larger_than_its_route_takes_is_refused_naming_the_limit(string method)
    {
        await using var buffer = new OutputBuffer(new CollectingTransport(maxMessageBytes: 500));

        var (outcome, _) = OutcomeOfWrite.Write(buffer, method, _first, new byte[501]);

        Assert.StartsWith("throws ", outcome, StringComparison.Ordinal);
        Assert.True(buffer.TryWrite(_first, new byte[500]));
    }

    private async Task<OutputBuffer> FillAsync(OverflowPolicy policy)
    {
        var buffer = await StallAsync(policy, firstBytes: 100);
        FillUp(buffer);
        return buffer;
    }

    private async Task<OutputBuffer> StallAsync(OverflowPolicy policy, int firstBytes)
    {
        _buffer = new OutputBuffer(_transport, new OutputBufferOptions { MaxBufferedBytes = Cap, MaxBufferedBytesPerHandle = Cap, MaxMessageBytes = Cap - 4, Overflow = policy }, timeProvider: new ManualTimeProvider());
        _buffer.Write(_first, new byte[firstBytes]);
        await _underWay.EnteredAsync();
        return _buffer;
    }

    // A handle each, so that no batch has room of its own left.
    private void FillUp(OutputBuffer buffer)
    {
        while (buffer.GetStatistics().BufferedBytes + Payload.Length + OutputBufferOptions.MessageOverheadBytes <= Cap)
        {
            _waiting.Add(Some.Connection());
            Assert.True(buffer.TryWrite(_waiting[^1], Payload));
        }
    }
}

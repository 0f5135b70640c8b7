using BatchKit.Testing;

namespace BatchKit.Tests.Buffering;

public sealed class LingerTests : IAsyncDisposable
{
    private static readonly TimeSpan Linger = TimeSpan.FromMilliseconds(20);

    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly OutputHandle _handle = Some.Connection();
    private readonly OutputBuffer _buffer;

    public LingerTests() => _buffer = new OutputBuffer(_arrived, new OutputBufferOptions { Linger = Linger, MaxBatchMessages = 4 }, timeProvider: _clock);

    public ValueTask DisposeAsync() => _buffer.DisposeAsync();

    [Fact]
    public void Unscoped_output_waits_for_other_messages_as_long_as_the_first_one_may()
    {
        _buffer.Write(_handle, "line 0");
        _clock.Advance(Linger / 2);
        _buffer.Write(_handle, "line 1");
        var sentBefore = _arrived.Batches.Count;

        _clock.Advance(Linger / 2);

        Assert.Equal(0, sentBefore);
        Assert.Equal(2, Assert.Single(_arrived.Batches).Messages.Count);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(10)]
    [InlineData(500)]
    [InlineData(999)]
    public async Task A_linger_below_a_millisecond_ends_though_timers_count_milliseconds(int microseconds)
    {
        await using var buffer = new OutputBuffer(_arrived, new OutputBufferOptions { Linger = TimeSpan.FromMicroseconds(microseconds) });

        buffer.Write(_handle, "line 0");
        await _arrived.WaitForMessagesAsync(1);
        buffer.Write(_handle, "line 1");
        await _arrived.WaitForMessagesAsync(2);

        Assert.Equal(Some.Lines(2), _arrived.Texts);
    }

    [Fact]
    public void Each_handle_lingers_on_its_own()
    {
        var other = Some.Connection();
        _buffer.Write(_handle, "first");
        _clock.Advance(Linger / 2);
        _buffer.Write(other, "second");

        _clock.Advance(Linger / 2);
        var afterOne = _arrived.Texts;
        _clock.Advance(Linger / 2);

        Assert.Equal(["first"], afterOne);
        Assert.Equal(["first", "second"], _arrived.Texts);
    }

    [Fact]
    public void A_full_batch_does_not_linger()
    {
        foreach (var line in Some.Lines(5))
            _buffer.Write(_handle, line);

        Assert.Equal(Some.Lines(4), _arrived.Texts);
        _clock.Advance(Linger);
        Assert.Equal(Some.Lines(5), _arrived.Texts);
    }

    [Fact]
    public async Task A_flush_ends_the_linger()
    {
        _buffer.Write(_handle, "line 0");

        await _buffer.FlushAsync(_handle);

        Assert.Equal(Some.Lines(1), _arrived.Texts);
        _buffer.Write(_handle, "line 1");
        Assert.Single(_arrived.Texts);
        _clock.Advance(Linger);
        Assert.Equal(Some.Lines(2), _arrived.Texts);
    }

    [Fact]
    public void What_lingers_when_a_scope_opens_leaves_before_it_and_a_closing_scope_does_not_linger()
    {
        _buffer.Write(_handle, "before");
        var scope = _buffer.BeginBufferingScope(_handle);
        _buffer.Write(_handle, "in the scope");
        var whileOpen = _arrived.Texts;
        _clock.Advance(Linger * 2);
        var afterLinger = _arrived.Texts;

        scope.Dispose();

        Assert.Equal(["before"], whileOpen);
        Assert.Equal(["before"], afterLinger);
        Assert.Equal(["before", "in the scope"], _arrived.Texts);
    }

    [Fact]
    public async Task What_lingers_when_an_ambient_scope_covers_its_handle_is_sent_outside_the_scopes_lock()
    {
        var transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true);
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { Linger = Linger }, timeProvider: _clock);
        var other = Some.Connection();
        buffer.Write(_handle, "lingers");
        using var scope = buffer.BeginBufferingScope();
        var flow = ExecutionContext.Capture()!;
        transport.Then(async (batches, cancellationToken) =>
        {
            // Another task of the scope's flow writes while the send is under way.
            var written = Task.Factory.StartNew(
                () => ExecutionContext.Run(flow, _ => buffer.Write(other, "by another task"), state: null),
                CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
            await _arrived.SendAsync(batches, cancellationToken);
            Assert.True(((IAsyncResult)written).AsyncWaitHandle.WaitOne(Deadline.Time));
        });

        buffer.Write(_handle, "in the scope");

        Assert.Equal(["lingers"], _arrived.Texts);
        Assert.Equal(0, buffer.GetStatistics().FailedSends);
    }
}

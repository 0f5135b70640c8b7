using BatchKit.Testing;
using BatchKit.Tests.Support;

namespace BatchKit.Tests.Buffering;

public sealed class ScopeTests : IAsyncDisposable
{
    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly CollectingLogger _logger = new();
    private readonly OutputHandle _handle = Some.Connection();
    private readonly OutputBuffer _buffer;

    public ScopeTests() => _buffer = new OutputBuffer(
        _arrived, new OutputBufferOptions { MaxScopeAge = TimeSpan.FromSeconds(8) }, timeProvider: _clock, logger: _logger);

    public ValueTask DisposeAsync() => _buffer.DisposeAsync();

    [Fact]
    public void A_scope_that_is_never_closed_is_flushed_at_its_age_with_a_warning_that_names_its_opener()
    {
        var scope = _buffer.BeginBufferingScope(_handle, openerLine: 42, openerFile: "Dolist.cs");
        _buffer.Write(_handle, "line 0");
        _clock.Advance(TimeSpan.FromSeconds(7));
        var sentBefore = _arrived.MessageCount;

        _clock.Advance(TimeSpan.FromSeconds(3));

        Assert.Equal(0, sentBefore);
        Assert.Equal(Some.Lines(1), _arrived.Texts);
        Assert.Contains(_logger.Lines, line => line.StartsWith("Warning: ", StringComparison.Ordinal) && line.Contains("Dolist.cs:42", StringComparison.Ordinal));
        Assert.Equal(0, _buffer.GetStatistics().OpenScopes);

        using var next = _buffer.BeginBufferingScope(_handle);
        scope.Dispose();
        Assert.Equal(1, _buffer.GetStatistics().OpenScopes);
    }

    [Fact]
    public void A_young_scope_survives_the_watch_that_closes_an_old_one_on_the_same_handle()
    {
        var old = _buffer.BeginBufferingScope(_handle);
        _clock.Advance(TimeSpan.FromSeconds(6));
        var young = _buffer.BeginBufferingScope(_handle);
        _buffer.Write(_handle, "line 0");

        _clock.Advance(TimeSpan.FromSeconds(4));

        Assert.Equal((1, 0), (_buffer.GetStatistics().OpenScopes, _arrived.MessageCount));
        old.Dispose();
        Assert.Equal(0, _arrived.MessageCount);
        young.Dispose();
        Assert.Equal(1, _arrived.MessageCount);
    }

    [Fact]
    public void Scopes_that_overlap_without_a_gap_hold_output_for_no_longer_than_twice_their_age()
    {
        var open = _buffer.BeginBufferingScope(_handle, openerLine: 0);
        _buffer.Write(_handle, "line 0");
        for (var second = 1; second <= 40; second++)
        {
            var next = _buffer.BeginBufferingScope(_handle, openerLine: second, openerFile: "Walk.cs");
            open.Dispose();
            open = next;
            _clock.Advance(TimeSpan.FromSeconds(1));
            if (second is 16 or 19)
                Assert.Equal(second == 16 ? 0 : 1, _arrived.MessageCount);
            if (second == 19)
                _buffer.Write(_handle, "line 1");
        }

        Assert.Equal(Some.Lines(2), _arrived.Texts);
        Assert.Contains(_logger.Lines, line => line.StartsWith("Warning: Scopes on one handle overlapped", StringComparison.Ordinal) && line.Contains("Walk.cs", StringComparison.Ordinal));
        Assert.Equal(1, _buffer.GetStatistics().OpenScopes);
        open.Dispose();
    }

    [Fact]
    public void A_scope_that_opens_beside_one_with_a_limit_has_its_own_age()
    {
        using var limited = _buffer.BeginBufferingScope(_handle, TimeSpan.FromSeconds(1));
        _clock.Advance(TimeSpan.FromSeconds(30));
        using var plain = _buffer.BeginBufferingScope(_handle);
        _buffer.Write(_handle, "line 0");

        _clock.Advance(TimeSpan.FromSeconds(8));

        Assert.Equal(0, _arrived.MessageCount);
        Assert.DoesNotContain(_logger.Lines, line => line.StartsWith("Warning: Scopes on one handle overlapped", StringComparison.Ordinal));
    }

    [Fact]
    public void An_ambient_scope_that_is_never_closed_is_flushed_at_its_age_too()
    {
        _buffer.BeginBufferingScope(openerLine: 7, openerFile: "Broadcast.cs");
        _buffer.Write(_handle, "line 0");

        _clock.Advance(TimeSpan.FromSeconds(10));

        Assert.Equal(Some.Lines(1), _arrived.Texts);
        Assert.Contains(_logger.Lines, line => line.Contains("Broadcast.cs:7", StringComparison.Ordinal));
    }

    [Fact]
    public async Task An_encoder_that_hangs_keeps_no_other_handles_scope_from_its_age()
    {
        using var released = new ManualResetEventSlim();
        var entered = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var hanging = Task.Factory.StartNew(() => _buffer.Write(OutputHandle.Named("hangs"), maxBytes: 10, released, (_, released) =>
        {
            entered.SetResult();
            released.Wait(Deadline.Time);
            return 0;
        }), CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
        await entered.Task.WithinDeadline();
        _buffer.BeginBufferingScope(_handle);
        _buffer.Write(_handle, "line 0");

        var advancing = Task.Factory.StartNew(() => _clock.Advance(TimeSpan.FromSeconds(10)), CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
        await advancing.WithinDeadline();

        Assert.Equal(Some.Lines(1), _arrived.Texts);
        released.Set();
        await hanging.WithinDeadline();
    }

    [Fact]
    public async Task What_was_written_before_a_scope_does_not_wait_for_it()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport);
        buffer.Write(_handle, "under way");
        await stalled.EnteredAsync();
        buffer.Write(_handle, "before");

        using (buffer.BeginBufferingScope(_handle))
        {
            buffer.Write(_handle, "in the scope");
            stalled.Release();
            await _arrived.WaitForMessagesAsync(2);

            Assert.Equal(["under way", "before"], _arrived.Texts);
        }

        await buffer.FlushAsync();
        Assert.Equal(["under way", "before", "in the scope"], _arrived.Texts);
    }

    [Fact]
    public void An_ambient_scope_gathers_what_its_flow_writes_to_every_handle_into_one_send()
    {
        OutputHandle[] handles = [.. Enumerable.Range(0, 20).Select(_ => Some.Connection())];

        using (_buffer.BeginBufferingScope())
        {
            foreach (var handle in handles.Concat(handles))
                _buffer.Write(handle, "line");
            Assert.Empty(_arrived.Batches);
        }

        Assert.Equal([handles.Length], _arrived.BatchesOfSends);
        Assert.All(_arrived.Batches, batch => Assert.Equal(2, batch.Messages.Count));
        Assert.Equal(handles, _arrived.Batches.Select(batch => batch.Handle));
    }

    [Fact]
    public async Task An_ambient_scope_follows_awaits_and_tasks_and_holds_back_no_other_flow()
    {
        var (own, other) = (Some.Connection(), Some.Connection());
        using var go = new SemaphoreSlim(0);
        var stranger = Task.Run(async () =>
        {
            await go.WaitAsync();
            _buffer.Write(other, "another flow's");
        });

        using (_buffer.BeginBufferingScope())
        {
            await Task.Yield();
            _buffer.Write(own, "after an await");
            await Task.Run(() => _buffer.Write(own, "in a task"));
            go.Release();
            await stranger.WithinDeadline();

            Assert.Equal(["another flow's"], _arrived.Texts);
        }

        Assert.Equal(["another flow's", "after an await", "in a task"], _arrived.Texts);
    }

    [Fact]
    public async Task Ambient_scopes_of_two_buffers_are_apart()
    {
        var otherArrived = new CollectingTransport();
        await using var other = new OutputBuffer(otherArrived);

        using (_buffer.BeginBufferingScope())
        {
            _buffer.Write(_handle, "held");
            other.Write(_handle, "at once");
            using (other.BeginBufferingScope())
                other.Write(_handle, "when its own closes");

            Assert.Empty(_arrived.Texts);
            Assert.Equal(["at once", "when its own closes"], otherArrived.Texts);
        }

        Assert.Equal(["held"], _arrived.Texts);
    }

    [Fact]
    public void A_task_that_outlives_its_ambient_scope_writes_unscoped_and_joins_no_later_one()
    {
        ExecutionContext? leaked;
        using (_buffer.BeginBufferingScope())
            leaked = ExecutionContext.Capture();
        using var later = _buffer.BeginBufferingScope();

        ExecutionContext.Run(leaked!, _ => _buffer.Write(_handle, "line 0"), state: null);

        Assert.Equal(Some.Lines(1), _arrived.Texts);
    }

    [Fact]
    public void The_default_scope_and_the_default_handle_are_no_scope_and_no_handle()
    {
        default(BufferingScope).Dispose();

        Assert.True(default(BufferingScope).DisposeAsync().IsCompletedSuccessfully);
        Assert.False(_buffer.EndBufferingScope(_handle));
        Assert.Throws<ArgumentException>(() => _buffer.BeginBufferingScope(default(OutputHandle)));
        Assert.Throws<ArgumentException>(() => _buffer.Write(default, "line"u8));
        Assert.Throws<ArgumentException>(() => _buffer.TryWrite(default, "line"u8));
    }

    [Fact]
    public void An_empty_scope_sends_nothing_and_an_empty_message_is_a_message()
    {
        _buffer.BeginBufferingScope(_handle).Dispose();
        var sentByEmptyScope = _arrived.Batches.Count;

        _buffer.Write(_handle, ReadOnlySpan<byte>.Empty);

        Assert.Equal(0, sentByEmptyScope);
        Assert.Equal("", Assert.Single(_arrived.Messages).Text);
    }
}

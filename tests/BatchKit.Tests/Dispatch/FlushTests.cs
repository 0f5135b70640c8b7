using BatchKit.Testing;

namespace BatchKit.Tests.Dispatch;

public sealed class FlushTests
{
    private readonly CollectingTransport _arrived = new();
    private readonly ScriptedTransport _transport;
    private readonly OutputHandle _handle = Some.Connection();

    public FlushTests() => _transport = new ScriptedTransport(_arrived);

    [Fact]
    public async Task The_end_of_a_nested_scope_completes_at_once_and_that_of_the_outermost_with_the_acknowledgement()
    {
        var stalled = _transport.Stall();
        await using var buffer = new OutputBuffer(_transport);
        var outer = buffer.BeginBufferingScope(_handle);
        var inner = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "line 0");

        var innerEnd = inner.DisposeAsync();
        var outerEnd = outer.DisposeAsync().AsTask();
        await stalled.EnteredAsync();

        Assert.True(innerEnd.IsCompletedSuccessfully);
        Assert.False(outerEnd.IsCompleted);
        stalled.Release();
        await outerEnd.WithinDeadline();
        Assert.Single(_arrived.Messages);
    }

    [Fact]
    public async Task A_flush_with_nothing_pending_waits_for_the_batch_that_is_under_way()
    {
        var stalled = _transport.Stall();
        await using var buffer = new OutputBuffer(_transport);
        buffer.Write(_handle, "line 0");
        await stalled.EnteredAsync();

        var flush = buffer.FlushAsync(_handle).AsTask();
        var flushOfAll = buffer.FlushAsync().AsTask();
        var flushOfOther = buffer.FlushAsync(Some.Connection());

        Assert.False(flush.IsCompleted);
        Assert.False(flushOfAll.IsCompleted);
        Assert.True(flushOfOther.IsCompletedSuccessfully);
        stalled.Release();
        await Task.WhenAll(flush, flushOfAll).WithinDeadline();
    }

    [Fact]
    public async Task A_flush_does_not_wait_for_what_is_written_after_it()
    {
        var (first, second) = (_transport.Stall(), _transport.Stall());
        await using var buffer = new OutputBuffer(_transport);
        buffer.Write(_handle, "line 0");
        await first.EnteredAsync();

        var flush = buffer.FlushAsync(_handle).AsTask();
        buffer.Write(_handle, "line 1");
        first.Release();
        await second.EnteredAsync();

        await flush.WithinDeadline();
        Assert.Equal(1, buffer.GetStatistics().PendingMessages);
        second.Release();
    }

    [Fact]
    public async Task A_flush_reaches_into_open_scopes_and_leaves_them_open()
    {
        await using var buffer = new OutputBuffer(_transport);
        using var scope = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "line 0");

        await buffer.FlushAsync(_handle).WithinDeadline();
        buffer.Write(_handle, "line 1");

        Assert.Equal(Some.Lines(1), _arrived.Texts);
        Assert.Equal(1, buffer.GetStatistics().OpenScopes);
    }

    [Fact]
    public async Task A_flush_throws_when_the_hop_refused_what_it_flushed_and_only_that_flush_does()
    {
        _transport.RefuseWhere(batch => batch.Handle == _handle);
        await using var buffer = new OutputBuffer(_transport);
        var other = Some.Connection();
        var scope = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "line 0");
        buffer.Write(_handle, "line 1");
        buffer.Write(other, "delivered");

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());
        await buffer.FlushAsync(other).WithinDeadline();
        await buffer.FlushAsync(_handle).WithinDeadline();

        Assert.Equal(2, failure.LostMessages);
        Assert.Equal(["delivered"], _arrived.Texts);
        Assert.Equal((2, 1), (buffer.GetStatistics().FailedMessages, buffer.GetStatistics().AcknowledgedMessages));
    }

    [Fact]
    public async Task The_end_of_an_ambient_scope_waits_for_every_handle_that_it_gathered()
    {
        var stalled = _transport.Stall();
        await using var buffer = new OutputBuffer(_transport);
        var scope = buffer.BeginBufferingScope();
        for (var count = 0; count < 5; count++)
            buffer.Write(Some.Connection(), "line");

        var end = scope.DisposeAsync().AsTask();
        await stalled.EnteredAsync();

        Assert.False(end.IsCompleted);
        stalled.Release();
        await end.WithinDeadline();
        Assert.Equal(5, _arrived.MessageCount);
    }

    [Fact]
    public async Task A_flush_of_an_ambient_scope_queues_what_it_holds_as_it_was_written_and_leaves_it_open()
    {
        await using var buffer = new OutputBuffer(_transport);
        var room = Some.Group();
        using var scope = buffer.BeginBufferingScope();
        using var own = buffer.BeginBufferingScope(_handle);
        buffer.Write(room, "line 0");
        buffer.Write(_handle, "line 1");
        buffer.Write(room, "line 2");
        using (var lines = buffer.BeginWriting(_handle))
        {
            lines.Write("line 3");
            buffer.FlushAmbientScope();
        }

        await Until.TrueAsync(() => _arrived.MessageCount == 4);
        buffer.Write(_handle, "line 4");

        Assert.Equal(Some.Lines(4), _arrived.Texts);
        Assert.Single(_arrived.BatchesOfSends);
        Assert.Equal(1, buffer.GetStatistics().PendingMessages);
    }

    [Fact]
    public async Task A_flush_of_an_ambient_scope_leaves_other_flows_alone()
    {
        await using var buffer = new OutputBuffer(_transport);
        using var scope = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "held");
        buffer.FlushAmbientScope();

        using (buffer.BeginBufferingScope())
            buffer.FlushAmbientScope();

        Assert.Equal(1, buffer.GetStatistics().PendingMessages);
    }
}

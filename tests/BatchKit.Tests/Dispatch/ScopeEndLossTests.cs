using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Dispatch;

/// <summary>What the end of a scope reports when something else has ended the scope before, or when other scopes hold its output.</summary>
public sealed class ScopeEndLossTests
{
    private static readonly TimeSpan Age = TimeSpan.FromSeconds(4);

    private readonly ManualTimeProvider _clock = new();
    private readonly OutputHandle _handle = Some.Connection();
    private readonly ScriptedTransport _transport = new(new CollectingTransport());

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task The_end_of_a_scope_that_was_ended_before_waits_for_what_that_flushed_and_reports_its_losses(bool byAge)
    {
        var stalled = _transport.Stall();
        await using var buffer = Buffer(_transport);
        var scope = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "line 0");
        buffer.Write(_handle, "line 1");
        EndScope(buffer, byAge);
        await stalled.EnteredAsync();

        var end = scope.DisposeAsync().AsTask();
        var endedEarly = end.IsCompleted;
        stalled.Fail(Refusal());

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => end.WithinDeadline());
        Assert.Equal((false, 2L), (endedEarly, failure.LostMessages));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task The_end_of_a_scope_that_was_ended_before_reports_its_losses_once_though_its_handle_has_other_scopes(bool byAge)
    {
        await using var buffer = Refusing();
        var scope = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "line 0");
        EndScope(buffer, byAge);
        using var later = buffer.BeginBufferingScope(_handle);

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());

        Assert.Equal(1, failure.LostMessages);
        await scope.DisposeAsync().WithinDeadline();
        Assert.Equal(1, buffer.GetStatistics().OpenScopes);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task The_end_of_an_ambient_scope_reports_what_was_lost_on_handles_whose_scopes_were_ended_before(bool byAge)
    {
        var other = Some.Connection();
        await using var buffer = Refusing();
        var scope = buffer.BeginBufferingScope();
        buffer.Write(_handle, "line 0");
        buffer.Write(other, "line 1");
        EndScope(buffer, byAge);

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());

        Assert.Equal(2, failure.LostMessages);
    }

    [Fact]
    public void A_scope_that_was_ended_before_closes_no_scope_that_was_opened_since()
    {
        var buffer = Refusing();
        var ended = buffer.BeginBufferingScope(_handle);
        buffer.EndBufferingScope(_handle);
        using var later = buffer.BeginBufferingScope(_handle);

        ended.Dispose();
        ended.Dispose();

        Assert.Equal(1, buffer.GetStatistics().OpenScopes);
    }

    [Fact]
    public async Task A_nested_ambient_scope_reports_what_is_known_to_be_lost_and_the_outermost_all_of_it()
    {
        await using var buffer = Refusing();
        var outer = buffer.BeginBufferingScope();
        buffer.Write(_handle, "line 0");
        await Record.ExceptionAsync(() => buffer.FlushAsync().WithinDeadline());
        var inner = buffer.BeginBufferingScope();
        buffer.Write(_handle, "line 1");
        buffer.Write(Some.Group(), "line 2");
        await Record.ExceptionAsync(() => buffer.FlushAsync().WithinDeadline());
        var quiet = buffer.BeginBufferingScope();
        buffer.Write(_handle, "line 3");

        await quiet.DisposeAsync().WithinDeadline();
        var innerFailure = await Assert.ThrowsAsync<OutputDeliveryException>(() => inner.DisposeAsync().WithinDeadline());
        var outerFailure = await Assert.ThrowsAsync<OutputDeliveryException>(() => outer.DisposeAsync().WithinDeadline());

        Assert.Equal((2, 4), (innerFailure.LostMessages, outerFailure.LostMessages));
    }

    [Fact]
    public async Task An_outermost_ambient_scope_that_closes_before_a_nested_one_reports_what_is_known_to_be_lost()
    {
        await using var buffer = Refusing();
        var outer = buffer.BeginBufferingScope();
        using var inner = buffer.BeginBufferingScope();
        buffer.Write(_handle, "line 0");
        await Record.ExceptionAsync(() => buffer.FlushAsync().WithinDeadline());
        buffer.Write(_handle, "line 1");

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => outer.DisposeAsync().WithinDeadline());

        Assert.Equal(1, failure.LostMessages);
    }

    [Fact]
    public async Task The_last_of_side_by_side_scopes_reports_what_was_lost_after_the_first_had_closed()
    {
        var stalled = _transport.Stall();
        await using var buffer = Buffer(_transport);
        var first = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "line 0");
        var flush = buffer.FlushAsync().AsTask();
        await stalled.EnteredAsync();
        var second = buffer.BeginBufferingScope(_handle);
        await first.DisposeAsync().WithinDeadline();

        var end = second.DisposeAsync().AsTask();
        stalled.Fail(Refusal());

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => end.WithinDeadline());
        await Record.ExceptionAsync(() => flush.WithinDeadline());
        Assert.Equal(1, failure.LostMessages);
    }

    [Fact]
    public async Task The_last_of_side_by_side_scopes_repeats_no_loss_of_the_first_that_was_reported()
    {
        await using var buffer = Refusing();
        var first = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "line 0");
        await Record.ExceptionAsync(() => buffer.FlushAsync(_handle).WithinDeadline());
        var second = buffer.BeginBufferingScope(_handle);

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => first.DisposeAsync().WithinDeadline());

        Assert.Equal(1, failure.LostMessages);
        await second.DisposeAsync().WithinDeadline();
    }

    private static BatchSendException Refusal() => new([BatchOutcome.Refused], "The test refuses this batch.");

    private OutputBuffer Refusing()
    {
        var transport = new ScriptedTransport(new CollectingTransport(), sendsWithoutBlocking: true);
        transport.RefuseWhere(static _ => true);
        return Buffer(transport);
    }

    private OutputBuffer Buffer(IBatchTransport transport) =>
        new(transport, new OutputBufferOptions { MaxScopeAge = Age, HandleIdleTimeout = Age * 8 }, timeProvider: _clock);

    private void EndScope(OutputBuffer buffer, bool byAge)
    {
        if (byAge)
            _clock.Advance(Age * 2);
        else
            Assert.True(buffer.EndBufferingScope(_handle));
    }
}

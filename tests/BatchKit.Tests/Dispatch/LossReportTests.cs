using System.Collections.Immutable;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Dispatch;

/// <summary>Who is told of lost messages: whoever awaits the end of the scope that they were written in, and the next flush.</summary>
public sealed class LossReportTests
{
    private readonly CollectingTransport _arrived = new();
    private readonly OutputHandle _handle = Some.Connection();

    [Fact]
    public async Task The_end_of_a_scope_reports_what_was_lost_by_a_flush_inside_it()
    {
        await using var buffer = Refusing(inline: true);
        var scope = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "line 0");
        buffer.Write(_handle, "line 1");
        var flush = await Record.ExceptionAsync(() => buffer.FlushAsync(_handle).WithinDeadline());

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());

        Assert.Equal(2, Assert.IsType<OutputDeliveryException>(flush).LostMessages);
        Assert.Equal(2, failure.LostMessages);
    }

    [Fact]
    public async Task The_end_of_a_scope_waits_for_what_left_it_early()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport);
        var scope = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "line 0");
        var flush = buffer.FlushAsync(_handle).AsTask();
        await stalled.EnteredAsync();

        var end = scope.DisposeAsync().AsTask();

        Assert.False(end.IsCompleted);
        stalled.Release();
        await Task.WhenAll(end, flush).WithinDeadline();
    }

    [Fact]
    public async Task The_end_of_a_scope_reports_what_left_it_because_capacity_was_needed()
    {
        await using var buffer = Refusing(inline: false, new OutputBufferOptions { MaxBufferedBytes = 1024, MaxMessageBytes = 1000 });
        var scope = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, new byte[900]);
        await buffer.WriteAsync(Some.Connection(), new byte[900]).WithinDeadline();
        await Until.TrueAsync(() => buffer.GetStatistics().FailedMessages >= 1);

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());

        Assert.Equal(1, failure.LostMessages);
    }

    [Fact]
    public async Task The_end_of_an_ambient_scope_reports_what_left_it_early_on_each_handle()
    {
        await using var buffer = Refusing(inline: true);
        var scope = buffer.BeginBufferingScope();
        buffer.Write(_handle, "line 0");
        buffer.Write(Some.Group(), "line 1");
        await Record.ExceptionAsync(() => buffer.FlushAsync().WithinDeadline());
        buffer.Write(Some.Connection(), "line 2");

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());

        Assert.Equal(3, failure.LostMessages);
    }

    [Fact]
    public async Task A_nested_scope_reports_what_is_known_to_be_lost_and_the_outermost_all_of_it()
    {
        await using var buffer = Refusing(inline: true);
        var outer = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "line 0");
        await Record.ExceptionAsync(() => buffer.FlushAsync(_handle).WithinDeadline());
        var inner = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "line 1");
        await Record.ExceptionAsync(() => buffer.FlushAsync(_handle).WithinDeadline());
        buffer.Write(_handle, "line 2");

        var innerFailure = await Assert.ThrowsAsync<OutputDeliveryException>(() => inner.DisposeAsync().WithinDeadline());
        var outerFailure = await Assert.ThrowsAsync<OutputDeliveryException>(() => outer.DisposeAsync().WithinDeadline());

        Assert.Equal((1, 3), (innerFailure.LostMessages, outerFailure.LostMessages));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_flush_reports_each_loss_since_the_flush_before_once_however_late_it_comes(bool inline)
    {
        await using var buffer = Refusing(inline);
        for (var round = 1; round <= 200; round++)
        {
            buffer.Write(_handle, "line");
            await Until.TrueAsync(() => buffer.GetStatistics().FailedMessages == round);

            var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => buffer.FlushAsync(_handle).WithinDeadline());

            Assert.Equal(1, failure.LostMessages);
            await buffer.FlushAsync(_handle).WithinDeadline();
        }
    }

    [Fact]
    public async Task A_flush_reports_all_of_many_losses()
    {
        await using var buffer = Refusing(inline: true);
        for (var count = 0; count < 100; count++)
            buffer.Write(_handle, "line");

        await Until.TrueAsync(() => buffer.GetStatistics().FailedMessages == 100);
        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => buffer.FlushAsync(_handle).WithinDeadline());

        Assert.Equal(100, failure.LostMessages);
        await buffer.FlushAsync(_handle).WithinDeadline();
    }

    [Fact]
    public async Task A_batch_that_one_of_two_routes_refuses_is_lost_once_with_its_cause_and_after_both_have_answered()
    {
        var (slow, refusing) = (new ScriptedTransport(_arrived), new ScriptedTransport(new CollectingTransport(), sendsWithoutBlocking: true));
        refusing.RefuseWhere(static _ => true);
        var stalled = slow.Stall();
        await using var buffer = new OutputBuffer([new OutputRoute("first", slow), new OutputRoute("second", refusing)], new BothRoutes());
        var scope = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "line 0");
        buffer.Write(_handle, "line 1");

        var end = scope.DisposeAsync().AsTask();
        await stalled.EnteredAsync();
        var endedEarly = end.IsCompleted;
        stalled.Release();

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => end.WithinDeadline());
        Assert.False(endedEarly);
        Assert.Equal(2, failure.LostMessages);
        Assert.IsType<BatchSendException>(failure.InnerException);
        var statistics = buffer.GetStatistics();
        Assert.Equal((0, 2, 0, 0), (statistics.AcknowledgedMessages, statistics.FailedMessages, statistics.PendingMessages, statistics.BufferedBytes));
        Assert.Equal(Some.Lines(2), _arrived.Texts);
    }

    [Fact]
    public async Task Unscoped_batches_of_two_routes_are_sealed_once_and_arrive_alike()
    {
        var other = new CollectingTransport(sendsWithoutBlocking: false);
        var arrived = new CollectingTransport(sendsWithoutBlocking: false);
        await using var buffer = new OutputBuffer([new OutputRoute("first", arrived), new OutputRoute("second", other)], new BothRoutes());

        await Task.WhenAll(Enumerable.Range(0, 4).Select(writer => Task.Run(() =>
        {
            for (var line = 0; line < 5000; line++)
                buffer.Write(_handle, $"{writer} {line}");
        }))).WithinDeadline();
        await buffer.FlushAsync().WithinDeadline();

        Assert.Equal(20_000, arrived.MessageCount);
        Assert.Equal(arrived.Texts, other.Texts);
        Assert.Equal(arrived.Batches.Select(batch => batch.Messages.Count), other.Batches.Select(batch => batch.Messages.Count));
        Assert.Equal((arrived.Batches.Count, 20_000L, 0L), ((int)buffer.GetStatistics().Batches, buffer.GetStatistics().AcknowledgedMessages, buffer.GetStatistics().BufferedBytes));
    }

    private OutputBuffer Refusing(bool inline, OutputBufferOptions? options = null)
    {
        var transport = new ScriptedTransport(_arrived, inline);
        transport.RefuseWhere(static _ => true);
        return new OutputBuffer(transport, options);
    }

    private sealed class BothRoutes : IOutputRouter
    {
        public ImmutableArray<string> GetRoutes(OutputHandle handle) => ["first", "second"];
    }
}

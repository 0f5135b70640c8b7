using System.Collections.Immutable;
using BatchKit.Testing;
using BatchKit.Tests.Support;

namespace BatchKit.Tests.Dispatch;

/// <summary>The time limit of a send, over timers that are as unreliable as .NET's.</summary>
public sealed class DeadlineTests
{
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(2);

    private readonly CollectingTransport _arrived = new();
    private readonly ScriptedTransport _transport;
    private readonly ManualTimeProvider _clock = new();
    private readonly OutputHandle _handle = Some.Connection();

    public DeadlineTests() => _transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true);

    [Fact]
    public async Task A_send_that_hangs_is_cancelled_though_its_timer_fires_early()
    {
        _clock.TimerFaults = new TimerFaults { Early = TimeSpan.FromMilliseconds(3) };
        await using var buffer = new OutputBuffer(_transport, new OutputBufferOptions { SendTimeout = Limit }, timeProvider: _clock);
        var (entered, cancelledAfter) = Hang();

        buffer.Write(_handle, "line 0");
        await entered.WithinDeadline();
        _clock.Advance(Limit);

        Assert.Equal(Limit, await cancelledAfter.WithinDeadline());
        await PassTimeUntilAsync(_arrived.WaitForMessagesAsync(1));
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    [InlineData(4)]
    public async Task Each_of_many_sends_that_hang_is_cancelled_after_its_limit_and_never_before_it(int seed)
    {
        _clock.TimerFaults = TimerFaults.Random(seed);
        var options = new OutputBufferOptions { SendTimeout = Limit, DeliveryTimeout = TimeSpan.FromHours(1) };
        await using var buffer = new OutputBuffer(_transport, options, timeProvider: _clock);

        for (var send = 0; send < 32; send++)
        {
            buffer.Write(_handle, "a send that passes");
            var (entered, cancelledAfter) = Hang();
            buffer.Write(_handle, "a send that hangs");
            var flush = buffer.FlushAsync(_handle).AsTask();
            await entered.WithinDeadline();
            for (var step = 0; !cancelledAfter.IsCompleted && step < 300; step++)
                _clock.Advance(TimeSpan.FromMilliseconds(10));

            // An eighth of the limit is what a send may get beyond it; a late timer comes on top.
            Assert.InRange(await cancelledAfter.WithinDeadline(), Limit, (Limit * 9 / 8) + TimeSpan.FromMilliseconds(50));
            await PassTimeUntilAsync(flush);
            await flush;
        }
    }

    [Fact]
    public async Task A_limit_with_a_part_of_a_millisecond_does_not_set_the_timer_in_a_loop()
    {
        var clock = new CuttingTimeProvider(_clock);
        var limit = Limit + TimeSpan.FromTicks(5000);
        await using var buffer = new OutputBuffer(_transport, new OutputBufferOptions { SendTimeout = limit }, timeProvider: clock);
        var (entered, cancelledAfter) = Hang();

        buffer.Write(_handle, "line 0");
        await entered.WithinDeadline();
        _clock.Advance(limit + TimeSpan.FromMilliseconds(1));
        var changes = clock.Changes;
        await PassTimeUntilAsync(_arrived.WaitForMessagesAsync(1));

        Assert.InRange(await cancelledAfter.WithinDeadline(), limit, limit + TimeSpan.FromMilliseconds(1));
        Assert.InRange(changes, 1, 12);
    }

    [Theory]
    [InlineData(3)]
    [InlineData(33)]
    [InlineData(110)]
    public async Task A_send_that_was_under_way_while_the_process_stood_still_is_sent_again_and_nothing_is_lost(int seconds)
    {
        await using var buffer = new OutputBuffer(_transport, new OutputBufferOptions { SendTimeout = Limit }, timeProvider: _clock);
        var (entered, cancelledAfter) = Hang();
        buffer.Write(_handle, "under way");
        await entered.WithinDeadline();
        buffer.Write(_handle, "behind it");

        _clock.Freeze(TimeSpan.FromSeconds(seconds));
        await cancelledAfter.WithinDeadline();
        await PassTimeUntilAsync(_arrived.WaitForMessagesAsync(2));

        var counted = buffer.GetStatistics();
        Assert.Equal((2, 0), (counted.AcknowledgedMessages, counted.FailedMessages));
    }

    [Fact]
    public async Task What_a_transport_blocked_its_caller_counts_towards_the_limit_also_for_a_send_that_follows_another()
    {
        await using var buffer = new OutputBuffer(_transport, new OutputBufferOptions { SendTimeout = Limit }, timeProvider: _clock);
        await buffer.WriteAsync(_handle, "a send that passes");
        await buffer.FlushAsync(_handle).WithinDeadline();
        var (entered, cancelledAfter) = Hang(blocksFor: TimeSpan.FromSeconds(1.9));

        buffer.Write(_handle, "a send that blocks its caller, and then hangs");
        await entered.WithinDeadline();
        for (var step = 0; !cancelledAfter.IsCompleted && step < 100; step++)
            _clock.Advance(TimeSpan.FromMilliseconds(10));

        Assert.InRange(await cancelledAfter.WithinDeadline(), Limit, Limit * 9 / 8);
        await PassTimeUntilAsync(_arrived.WaitForMessagesAsync(2));
    }

    [Fact]
    public async Task A_transport_that_blocks_its_caller_until_its_token_is_cancelled_is_cancelled()
    {
        var transport = new ScriptedTransport(_arrived);
        var cancelled = new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
        transport.Then((_, cancellationToken) =>
        {
            cancelled.SetResult(cancellationToken.WaitHandle.WaitOne(Deadline.Time));
            throw new OperationCanceledException(cancellationToken);
        });
        var options = new OutputBufferOptions { SendTimeout = TimeSpan.FromMilliseconds(50), RetryDelay = TimeSpan.FromMilliseconds(1) };
        await using var buffer = new OutputBuffer(transport, options);

        buffer.Write(_handle, "line 0");

        Assert.True(await cancelled.Task.WaitAsync(Deadline.Time * 2));
        await _arrived.WaitForMessagesAsync(1);
    }

    [Fact]
    public async Task A_transports_own_cancellation_is_not_taken_for_the_time_limit()
    {
        _transport.Fail(exception: new OperationCanceledException("The channel was closed."));
        await using var buffer = new OutputBuffer(_transport, new OutputBufferOptions { SendTimeout = Limit }, timeProvider: _clock);

        buffer.Write(_handle, "line 0");
        await Until.TrueAsync(() => buffer.GetStatistics().FailedSends == 1);

        var reason = Assert.Single(buffer.GetHealth().Reasons);
        Assert.Contains("The channel was closed.", reason, StringComparison.Ordinal);
        Assert.DoesNotContain(nameof(OutputBufferOptions.SendTimeout), reason, StringComparison.Ordinal);
        await _clock.WaitForTimersAsync(2);
        _clock.Advance(TimeSpan.FromSeconds(1));
        await _arrived.WaitForMessagesAsync(1);
    }

    [Fact]
    public async Task A_cancellation_callback_that_throws_harms_neither_the_timer_nor_the_send()
    {
        _transport.Then(async (_, cancellationToken) =>
        {
            cancellationToken.Register(static () => throw new InvalidOperationException("A callback throws."));
            await Task.Delay(Timeout.InfiniteTimeSpan, cancellationToken);
        });
        await using var buffer = new OutputBuffer(_transport, new OutputBufferOptions { SendTimeout = Limit }, timeProvider: _clock);

        buffer.Write(_handle, "line 0");
        _clock.Advance(Limit);
        await PassTimeUntilAsync(_arrived.WaitForMessagesAsync(1));

        Assert.Equal(Some.Lines(1), _arrived.Texts);
        Assert.Equal((2, 1), (buffer.GetStatistics().Sends, buffer.GetStatistics().FailedSends));
    }

    [Fact]
    public async Task A_cancellation_callback_that_throws_at_the_drain_limit_stops_no_other_routes_cancellation()
    {
        var hanging = new ScriptedTransport(_arrived, sendsWithoutBlocking: true);
        foreach (var transport in new[] { _transport, hanging })
        {
            transport.Then(async (_, cancellationToken) =>
            {
                cancellationToken.Register(static () => throw new InvalidOperationException("A callback throws."));
                await Task.Delay(Timeout.InfiniteTimeSpan, cancellationToken);
            });
        }

        OutputRoute[] routes = [new("first", _transport), new("second", hanging)];
        var buffer = new OutputBuffer(routes, new ConnectionsFirst(), new OutputBufferOptions { DrainTimeout = TimeSpan.FromSeconds(1) }, timeProvider: _clock);
        buffer.Write(_handle, "line 0");
        buffer.Write(Some.Group(), "line 1");

        var stop = buffer.StopAsync(CancellationToken.None);
        await PassTimeUntilAsync(stop);

        await stop;
        Assert.Equal((2, 0), (buffer.GetStatistics().DroppedMessages, buffer.GetStatistics().PendingMessages));
        await buffer.DisposeAsync().WithinDeadline();
        Assert.Equal(0, _clock.ArmedTimers);
    }

    /// <summary>The next send hangs until it is cancelled.</summary>
    /// <returns>When it has begun, and how long it took until it was cancelled.</returns>
    private (Task Entered, Task<TimeSpan> CancelledAfter) Hang(TimeSpan blocksFor = default)
    {
        var entered = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var cancelledAfter = new TaskCompletionSource<TimeSpan>(TaskCreationOptions.RunContinuationsAsynchronously);
        _transport.Then(async (_, cancellationToken) =>
        {
            var begun = _clock.GetTimestamp();
            // Not disposed: a token calls the newest callback first, and the end of the delay below would take this one away uncalled.
            cancellationToken.Register(() => cancelledAfter.TrySetResult(_clock.GetElapsedTime(begun)));
            _clock.Advance(blocksFor);
            entered.SetResult();
            await Task.Delay(Timeout.InfiniteTimeSpan, cancellationToken);
        });
        return (entered.Task, cancelledAfter.Task);
    }

    private async Task PassTimeUntilAsync(Task task)
    {
        for (var ending = task.WithinDeadline(); !ending.IsCompleted;)
        {
            _clock.Advance(TimeSpan.FromMilliseconds(50));
            await Task.WhenAny(ending, Task.Delay(1));
        }
    }

    private sealed class BothRoutes : IOutputRouter
    {
        public ImmutableArray<string> GetRoutes(OutputHandle handle) => ["first", "second"];
    }

    private sealed class ConnectionsFirst : IOutputRouter
    {
        public ImmutableArray<string> GetRoutes(OutputHandle handle) => [handle.IsConnection ? "first" : "second"];
    }
}

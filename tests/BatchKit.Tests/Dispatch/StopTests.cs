using BatchKit.Testing;
using BatchKit.Tests.Support;
using BatchKit.Transports;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.Tests.Dispatch;

public sealed class StopTests
{
    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly CollectingLogger _logger = new();
    private readonly OutputHandle _handle = Some.Connection();

    [Fact]
    public async Task A_stop_sends_what_waits_what_lingers_and_what_open_scopes_hold_back()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        var buffer = Buffer(transport, new OutputBufferOptions { Linger = TimeSpan.FromSeconds(1) });
        var (lingering, held, gathered) = (Some.Connection(), Some.Connection(), Some.Connection());
        buffer.Write(_handle, "line 0");
        _clock.Advance(TimeSpan.FromSeconds(1));
        await stalled.EnteredAsync();
        buffer.Write(lingering, "lingers");
        var scope = buffer.BeginBufferingScope(held);
        buffer.Write(held, "held");
        var ambient = buffer.BeginBufferingScope();
        buffer.Write(gathered, "gathered");

        var stop = buffer.StopAsync(CancellationToken.None);
        stalled.Release();
        await stop.WithinDeadline();

        Assert.Equal(["gathered", "held", "line 0", "lingers"], _arrived.Texts.Order(StringComparer.Ordinal));
        Assert.Equal((4, 0), (buffer.GetStatistics().AcknowledgedMessages, buffer.GetStatistics().PendingMessages));
        scope.Dispose();
        ambient.Dispose();
        await buffer.DisposeAsync();
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_stop_over_a_hop_that_never_answers_ends_by_its_limit_and_says_what_was_left(bool ignoresCancellation)
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall(ignoresCancellation);
        var buffer = Buffer(transport, new OutputBufferOptions { DrainTimeout = TimeSpan.FromSeconds(3) });
        buffer.Write(_handle, "under way");
        await stalled.EnteredAsync();
        buffer.Write(_handle, "waits");
        using var scope = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "held");

        var stop = buffer.StopAsync(CancellationToken.None);
        _clock.Advance(TimeSpan.FromSeconds(2));
        var endedEarly = stop.IsCompleted;
        await stop.WhileAdvancing(() => _clock.Advance(TimeSpan.FromMilliseconds(100)));
        await stop;

        Assert.False(endedEarly);
        var statistics = buffer.GetStatistics();
        Assert.Equal((3, 3, 0, 0), (statistics.AcceptedMessages, statistics.DroppedMessages, statistics.PendingMessages, statistics.BufferedBytes));
        Assert.Contains(_logger.Lines, line => line.StartsWith("Warning: ", StringComparison.Ordinal) && line.Contains("3 messages", StringComparison.Ordinal) && line.Contains("DrainTimeout", StringComparison.Ordinal));
        stalled.Release();
        await buffer.DisposeAsync().WithinDeadline();
    }

    [Fact]
    public async Task A_stop_keeps_its_limit_and_sends_other_output_although_an_encoder_hangs()
    {
        using var released = new ManualResetEventSlim();
        var entered = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var buffer = Buffer(_arrived, new OutputBufferOptions());
        var hanging = Task.Factory.StartNew(() => buffer.Write(OutputHandle.Named("hangs"), maxBytes: 10, released, (_, released) =>
        {
            entered.SetResult();
            released.Wait(Deadline.Time);
            return 0;
        }), CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
        await entered.Task.WithinDeadline();
        buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "held");

        var stopping = Task.Factory.StartNew(() => buffer.StopAsync(CancellationToken.None), CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
        var stop = await stopping.WithinDeadline();
        await _arrived.WaitForMessagesAsync(1);
        _clock.Advance(new OutputBufferOptions().DrainTimeout);
        await stop.WithinDeadline();

        Assert.Equal(["held"], _arrived.Texts);
        released.Set();
        await hanging.WithinDeadline();
        await buffer.DisposeAsync();
    }

    [Fact]
    public async Task A_stop_over_a_route_that_fails_each_send_ends_by_its_limit()
    {
        var transport = new ScriptedTransport(_arrived).Fail(sends: 1000);
        var buffer = Buffer(transport, new OutputBufferOptions { DrainTimeout = TimeSpan.FromSeconds(1) });
        buffer.Write(_handle, "line 0");
        var flush = buffer.FlushAsync(_handle).AsTask();

        var stop = buffer.StopAsync(CancellationToken.None);
        await stop.WhileAdvancing(() => _clock.Advance(TimeSpan.FromMilliseconds(100)));
        await stop;

        Assert.Equal((1, 0), (buffer.GetStatistics().DroppedMessages, buffer.GetStatistics().PendingMessages));
        await Assert.ThrowsAsync<OutputDeliveryException>(() => flush.WithinDeadline());
        await buffer.DisposeAsync().WithinDeadline();
    }

    [Fact]
    public async Task Cancelling_a_stop_ends_the_drain_early()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        var buffer = Buffer(transport);
        buffer.Write(_handle, "line 0");
        await stalled.EnteredAsync();
        using var cancellation = new CancellationTokenSource();

        var stop = buffer.StopAsync(cancellation.Token);
        await cancellation.CancelAsync();

        await stop.WithinDeadline();
        Assert.Equal(1, buffer.GetStatistics().DroppedMessages);
        await buffer.DisposeAsync().WithinDeadline();
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task The_log_of_a_stop_names_what_ended_the_drain_and_promises_no_retry(bool hostEndsIt)
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        var buffer = Buffer(transport, new OutputBufferOptions { DrainTimeout = TimeSpan.FromSeconds(1) });
        buffer.Write(_handle, "line 0");
        await stalled.EnteredAsync();
        using var cancellation = new CancellationTokenSource();

        var stop = buffer.StopAsync(cancellation.Token);
        if (hostEndsIt)
            await cancellation.CancelAsync();
        await stop.WhileAdvancing(() => _clock.Advance(TimeSpan.FromMilliseconds(100)));
        await stop;

        var line = Assert.Single(_logger.Lines);
        Assert.Contains("1 messages not sent", line, StringComparison.Ordinal);
        Assert.EndsWith(hostEndsIt ? "HostOptions.ShutdownTimeout." : "DrainTimeout (00:00:01) has passed.", line, StringComparison.Ordinal);
        await buffer.DisposeAsync().WithinDeadline();
    }

    [Fact]
    public async Task A_stopped_buffer_takes_nothing_more_and_says_so()
    {
        var buffer = Buffer(_arrived);
        var scope = buffer.BeginBufferingScope(_handle);

        await buffer.StopAsync(CancellationToken.None).WithinDeadline();

        Assert.False(buffer.TryWrite(_handle, "late"u8));
        Assert.Throws<ObjectDisposedException>(() => buffer.Write(_handle, "late"u8));
        await Assert.ThrowsAsync<ObjectDisposedException>(() => buffer.WriteAsync(_handle, new byte[1]).AsTask());
        Assert.Throws<ObjectDisposedException>(() => buffer.BeginBufferingScope(_handle));
        Assert.Throws<ObjectDisposedException>(() => buffer.BeginBufferingScope());
        Assert.Throws<ObjectDisposedException>(() => buffer.Write(Some.Connection(), "late"u8));
        scope.Dispose();
        await scope.DisposeAsync();
        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal(HealthStatus.Unhealthy, buffer.GetHealth().Status);
        Assert.Empty(_arrived.Messages);
        await buffer.DisposeAsync();
        await buffer.DisposeAsync();
    }

    [Fact]
    public async Task A_writer_that_waits_for_capacity_is_told_of_the_stop()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        var buffer = Buffer(transport, new OutputBufferOptions { MaxBufferedBytes = 1024, MaxMessageBytes = 1000 });
        buffer.Write(_handle, new byte[900]);
        await stalled.EnteredAsync();
        var write = buffer.WriteAsync(_handle, new byte[500]).AsTask();

        var stop = buffer.StopAsync(CancellationToken.None);

        await Assert.ThrowsAsync<ObjectDisposedException>(() => write.WithinDeadline());
        stalled.Release();
        await stop.WithinDeadline();
        Assert.Equal((1, 0), (_arrived.MessageCount, buffer.GetStatistics().BufferedBytes));
        await buffer.DisposeAsync();
    }

    [Fact]
    public async Task Writers_on_other_threads_during_a_stop_are_accepted_and_sent_or_refused()
    {
        for (var round = 0; round < 50; round++)
        {
            var arrived = new CollectingTransport(sendsWithoutBlocking: round % 2 == 0);
            var buffer = new OutputBuffer(arrived);
            using var start = new Barrier(3);
            var writers = Enumerable.Range(0, 2).Select(writer => Task.Run(() =>
            {
                start.SignalAndWait();
                var accepted = 0;
                for (var count = 0; count < 200; count++)
                    accepted += buffer.TryWrite(OutputHandle.Connection(node: 1, (writer * 1000) + (count % 20) + 1), "line"u8) ? 1 : 0;
                return accepted;
            })).ToArray();

            start.SignalAndWait();
            await buffer.StopAsync(CancellationToken.None).WithinDeadline();
            var accepted = (await Task.WhenAll(writers).WithinDeadline()).Sum();
            await buffer.DisposeAsync().WithinDeadline();

            var statistics = buffer.GetStatistics();
            Assert.Equal((accepted, accepted, 0), (statistics.AcceptedMessages, statistics.AcknowledgedMessages, statistics.PendingMessages));
            Assert.Equal(accepted, arrived.MessageCount);
        }
    }

    [Fact]
    [Trait("Lane", "slow: threads race again and again")]
    public async Task Writers_that_drop_the_oldest_drop_nothing_for_a_message_that_comes_after_the_stop()
    {
        for (var round = 0; round < 20; round++)
        {
            var arrived = new CollectingTransport();
            var transport = new ScriptedTransport(arrived);
            var stalled = transport.Stall();

            // On a busy machine the writers' end alone takes longer than the ten seconds that a stop has by default.
            var buffer = new OutputBuffer(transport, new OutputBufferOptions
            {
                MaxBufferedBytes = 65_536,
                MaxMessageBytes = 1024,
                Overflow = OverflowPolicy.DropOldest,
                DrainTimeout = TimeSpan.FromMinutes(5),
            });
            buffer.Write(_handle, "under way");
            await stalled.EnteredAsync();
            using var full = new CountdownEvent(4);
            var writers = Enumerable.Range(0, 4).Select(writer => OnOwnThread(() =>
            {
                for (var count = 0; buffer.TryWrite(OutputHandle.Connection(node: 1, (writer * 1000) + (count % 200) + 1), new byte[300]); count++)
                {
                    if (count == 300)
                        full.Signal();
                }
            })).ToArray();
            Assert.True(full.Wait(Deadline.Time));

            var stop = buffer.StopAsync(CancellationToken.None);
            await Task.WhenAll(writers).WithinDeadline();
            stalled.Release();
            await stop.WithinDeadline();

            Assert.Equal(0, buffer.GetStatistics().StopDroppedMessages);
            Assert.InRange(arrived.MessageCount, 65_536 / 304 / 2, 1 + (65_536 / 304));
            await buffer.DisposeAsync();
        }
    }

    // The pool has as few threads as cores, and writers that never rest would keep them all.
    private static Task OnOwnThread(Action action) =>
        Task.Factory.StartNew(action, CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);

    private OutputBuffer Buffer(IBatchTransport transport, OutputBufferOptions? options = null) =>
        new(transport, options, timeProvider: _clock, logger: _logger);
}

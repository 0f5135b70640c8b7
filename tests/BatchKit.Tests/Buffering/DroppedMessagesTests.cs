using System.Collections.Concurrent;
using System.Collections.Immutable;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.Tests.Buffering;

/// <summary>The application's callback for lost messages: it learns of each, and can't hurt.</summary>
public sealed class DroppedMessagesTests
{
    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly ConcurrentQueue<DroppedMessages> _dropped = new();
    private readonly OutputHandle _handle = Some.Connection();

    [Theory]
    [InlineData(OverflowPolicy.DropNewest)]
    [InlineData(OverflowPolicy.DropOldest)]
    public async Task What_a_full_buffer_drops_is_told_with_its_handle_and_count(OverflowPolicy policy)
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = Buffer(transport, _dropped.Enqueue, new OutputBufferOptions { Overflow = policy, MaxBufferedBytes = 10_240, MaxMessageBytes = 1024 });
        buffer.Write(Some.Connection(), "under way");
        await stalled.EnteredAsync();

        for (var line = 0; line < 20; line++)
            buffer.TryWrite(_handle, new byte[1000]);

        stalled.Release();
        await Record.ExceptionAsync(() => buffer.FlushAsync().WithinDeadline());
        await buffer.DisposeAsync();
        var statistics = buffer.GetStatistics();
        Assert.All(_dropped, dropped => Assert.Equal((_handle, DropReason.Overflow), (dropped.Handle, dropped.Reason)));
        Assert.InRange(_dropped.Sum(static dropped => dropped.Count), 10, 15);
        Assert.Equal(statistics.RefusedMessages + statistics.DroppedMessages, _dropped.Sum(static dropped => dropped.Count));
    }

    [Fact]
    public async Task What_a_route_refuses_and_what_a_stop_drops_is_told()
    {
        var transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true).Answer(BatchOutcome.Refused);
        var stalled = transport.Stall();
        await using var buffer = Buffer(transport, _dropped.Enqueue);

        buffer.Write(_handle, "refused");
        buffer.Write(_handle, "dropped at the stop");
        await stalled.EnteredAsync();
        await buffer.StopAsync(new CancellationToken(canceled: true)).WithinDeadline();
        await buffer.DisposeAsync();

        Assert.Equal([new DroppedMessages(_handle, DropReason.Failed, 1), new DroppedMessages(_handle, DropReason.Stopped, 1)], _dropped);
    }

    [Fact]
    public async Task A_callback_that_hangs_holds_up_no_writer_no_route_and_no_end()
    {
        using var released = new ManualResetEventSlim();
        var calls = 0;
        var transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true);
        transport.RefuseWhere(batch => batch.Handle == _handle);
        var buffer = Buffer(transport, _ =>
        {
            Interlocked.Increment(ref calls);
            released.Wait(Deadline.Time);
        });

        for (var line = 0; line < 10_000; line++)
        {
            buffer.Write(_handle, "refused");
            buffer.Write(Some.Connection(), "taken");
        }

        Assert.Equal(10_000, _arrived.MessageCount);
        await Until.TrueAsync(() => Volatile.Read(ref calls) == 1);
        var ending = buffer.DisposeAsync().AsTask();
        while (!ending.IsCompleted)
        {
            _clock.Advance(TimeSpan.FromSeconds(1));
            await Task.WhenAny(ending, Task.Delay(1));
        }

        await ending;
        released.Set();
    }

    [Fact]
    public async Task A_callback_that_throws_or_writes_harms_nobody_and_health_tells_of_it()
    {
        OutputBuffer? buffer = null;
        var transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true);
        transport.RefuseWhere(batch => batch.Handle == _handle);
        buffer = Buffer(transport, dropped =>
        {
            buffer!.Write(Some.Connection(), "from the callback");
            throw new HostileException();
        });
        await using (buffer)
        {
            buffer.Write(_handle, "refused");

            await _arrived.WaitForMessagesAsync(1);
            await Until.TrueAsync(() => buffer.GetHealth().Status == HealthStatus.Degraded);
            Assert.Equal("from the callback", Assert.Single(_arrived.Texts));
        }
    }

    [Fact]
    public async Task Many_handles_that_lose_messages_while_a_call_runs_are_told_in_bounded_memory()
    {
        using var released = new ManualResetEventSlim();
        var transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true);
        transport.RefuseWhere(static _ => true);
        await using var buffer = Buffer(transport, dropped =>
        {
            released.Wait(Deadline.Time);
            _dropped.Enqueue(dropped);
        });

        for (var handle = 0; handle < 5000; handle++)
            buffer.Write(Some.Connection(), "refused");
        released.Set();
        await buffer.DisposeAsync();

        Assert.Equal(5000, _dropped.Sum(static dropped => dropped.Count));
        Assert.InRange(_dropped.Count, 2, 3000);
        Assert.Contains(_dropped, static dropped => dropped.Handle.IsNone);
    }

    private OutputBuffer Buffer(IBatchTransport transport, Action<DroppedMessages> callback, OutputBufferOptions? options = null)
    {
        options ??= new OutputBufferOptions();
        options.MessagesDropped = callback;
        return new OutputBuffer(transport, options, timeProvider: _clock);
    }
}

using System.Runtime.CompilerServices;
using System.Text;
using BatchKit.Testing;
using BatchKit.Tests.Support;

namespace BatchKit.Tests.Buffering;

/// <summary>A tick loop's scope stays open for as long as the process runs, while its clients come and go.</summary>
[Collection(nameof(MeasuresMemory))]
public sealed class TickScopeTests
{
    private static readonly TimeSpan Limit = TimeSpan.FromMilliseconds(50);

    private readonly ManualTimeProvider _clock = new();
    private readonly CollectingTransport _arrived = new();

    [Fact]
    public async Task It_keeps_no_handle_that_is_no_longer_used()
    {
        var transport = new CountingTransport();
        await using var buffer = new OutputBuffer(transport, timeProvider: _clock);
        await using var tick = buffer.BeginBufferingScope(Limit);

        for (var number = 1; number <= 50_000; number++)
        {
            buffer.Write(OutputHandle.Connection(node: 1, number), "hello");
            if (number % 1000 == 0)
                _clock.Advance(Limit);
        }

        PassIdleTime();

        var statistics = buffer.GetStatistics();
        Assert.Equal((0, 0), (statistics.LiveHandles, statistics.OpenScopes));
        Assert.Equal((50_000, 50_000), (statistics.AcknowledgedMessages, transport.Messages));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Neither_it_nor_a_forgotten_scope_keeps_the_memory_of_unused_handles(bool hasLimit)
    {
        await using var buffer = new OutputBuffer(new CountingTransport(), timeProvider: _clock);
        await using var scope = buffer.BeginBufferingScope(hasLimit ? Limit : null);
        buffer.Write(Some.Connection(), "the first");
        var unused = Use(buffer, handles: 1000);
        PassIdleTime();

        Use(buffer, handles: 2000);
        GC.Collect();

        Assert.All(unused, static handle => Assert.False(handle.IsAlive));
    }

    [Fact]
    public async Task A_handle_that_is_used_again_is_held_to_the_limit_again()
    {
        await using var buffer = new OutputBuffer(_arrived, timeProvider: _clock);
        await using var tick = buffer.BeginBufferingScope(Limit);
        OutputHandle[] handles = [Some.Connection(), Some.Group(), Some.Connection()];
        for (var round = 0; round < 3; round++)
        {
            foreach (var handle in handles)
                buffer.Write(handle, $"round {round}");
            _clock.Advance(Limit - TimeSpan.FromTicks(1));
            Assert.Equal(round * handles.Length, _arrived.MessageCount);

            _clock.Advance(TimeSpan.FromTicks(1));

            Assert.Equal((round + 1) * handles.Length, _arrived.MessageCount);
            PassIdleTime();
        }

        Assert.Equal([handles.Length, handles.Length, handles.Length], _arrived.BatchesOfSends);
        Assert.Equal(0, buffer.GetStatistics().LiveHandles);
    }

    [Fact]
    public async Task Its_end_reports_a_loss_however_long_ago()
    {
        var transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true);
        transport.RefuseWhere(static _ => true);
        await using var buffer = new OutputBuffer(transport, timeProvider: _clock);
        var tick = buffer.BeginBufferingScope(Limit);
        buffer.Write(Some.Connection(), "lost");
        buffer.Write(Some.Connection(), "lost too");
        _clock.Advance(Limit);
        PassIdleTime();

        var loss = await Assert.ThrowsAsync<OutputDeliveryException>(() => tick.DisposeAsync().AsTask());

        Assert.Equal(2, loss.LostMessages);
    }

    [Fact]
    public async Task A_caller_that_has_a_scope_of_its_own_keeps_the_handle()
    {
        await using var buffer = new OutputBuffer(_arrived, timeProvider: _clock);
        var handle = Some.Connection();
        using var own = buffer.BeginBufferingScope(handle, Limit);
        await using var tick = buffer.BeginBufferingScope(Limit);
        buffer.Write(handle, "line 0");
        PassIdleTime();

        buffer.Write(handle, "line 1");

        Assert.Equal(Some.Lines(1), _arrived.Texts);
        Assert.Equal(2, buffer.GetStatistics().OpenScopes);
    }

    [Fact]
    public async Task A_tick_does_not_wait_for_a_handle_that_was_not_written_since_the_last()
    {
        using var released = new ManualResetEventSlim();
        var entered = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await using var buffer = new OutputBuffer(_arrived, timeProvider: _clock);
        var (first, second) = (Some.Connection(), Some.Connection());
        var hanging = Task.CompletedTask;
        using (buffer.BeginBufferingScope(Limit))
        {
            buffer.Write(first, "line 0");
            buffer.Write(second, "line 1");
            _clock.Advance(Limit);
            using (ExecutionContext.SuppressFlow())
                hanging = Task.Run(() => buffer.Write(second, maxBytes: 10, 0, Hang));
            await entered.Task.WithinDeadline();
            buffer.Write(first, "line 2");

            await Task.Run(() => _clock.Advance(Limit)).WithinDeadline();

            Assert.Equal(Some.Lines(3), _arrived.Texts);
            released.Set();
            await hanging.WithinDeadline();
        }

        int Hang(Span<byte> memory, int state)
        {
            entered.SetResult();
            released.Wait(Deadline.Time);
            return Encoding.UTF8.GetBytes("line 3", memory);
        }
    }

    // The buffers of the handles go out of use here.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private List<WeakReference> Use(OutputBuffer buffer, int handles)
    {
        var used = new List<WeakReference>();
        for (var count = 0; count < handles; count++)
        {
            var handle = Some.Connection();
            using (var own = buffer.BeginBufferingScope(handle))
                used.Add(new WeakReference(own.Handle));
            buffer.Write(handle, "hello");
        }

        _clock.Advance(Limit);
        return used;
    }

    private void PassIdleTime() => _clock.Advance(TimeSpan.FromMinutes(3));
}

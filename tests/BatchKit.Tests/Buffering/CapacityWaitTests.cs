using BatchKit.Testing;

namespace BatchKit.Tests.Buffering;

public sealed class CapacityWaitTests
{
    private const int Cap = 2048;

    private static readonly byte[] Payload = Some.RandomBytes(300);

    private readonly CollectingTransport _arrived = new(sendsWithoutBlocking: false);

    [Fact]
    public async Task A_writer_that_waits_for_capacity_while_its_own_scopes_are_open_gets_it()
    {
        await using var buffer = new OutputBuffer(_arrived, new OutputBufferOptions { MaxBufferedBytes = Cap, MaxMessageBytes = Cap - 4 });
        var (own, other) = (Some.Connection(), Some.Connection());
        buffer.Write(other, Payload);

        using (buffer.BeginBufferingScope())
        using (buffer.BeginBufferingScope(own))
        using (buffer.BeginBufferingScope(own))
        using (buffer.BeginBufferingScope(other))
        {
            for (var count = 0; count < 100; count++)
            {
                await buffer.WriteAsync(own, Payload).WithinDeadline();
                await buffer.WriteAsync(other, Payload).WithinDeadline();
            }
        }

        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal((100, 101), (_arrived.MessagesFor(own).Count, _arrived.MessagesFor(other).Count));
    }

    [Fact]
    public async Task Writers_that_wait_get_capacity_in_the_order_they_came_and_none_starves()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { MaxBufferedBytes = Cap, MaxMessageBytes = Cap - 4 });
        buffer.Write(Some.Connection(), new byte[Cap - 100]);
        await stalled.EnteredAsync();
        var handle = Some.Connection();

        var large = buffer.WriteAsync(handle, new byte[1500]).AsTask();
        var small = buffer.TryWrite(handle, new byte[10]);
        stalled.Release();
        await large.WithinDeadline();

        Assert.False(small);
        await buffer.FlushAsync(handle);
        Assert.Equal(1500, Assert.Single(_arrived.MessagesFor(handle)).Payload.Length);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(20)]
    public async Task A_write_is_counted_while_it_waits_for_its_handles_share_or_for_capacity_awaited_or_not(int handles)
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { MaxBufferedBytes = Cap, MaxMessageBytes = Cap - 4 });
        using var cancelling = new CancellationTokenSource();

        for (var number = 0; number < 20; number++)
            _ = buffer.WriteAsync(OutputHandle.Connection(node: 1, sequence: (number % handles) + 1), Payload).AsTask();
        var accepted = buffer.GetStatistics().AcceptedMessages;
        Assert.InRange(accepted, 1, 10);
        Assert.Equal(20 - accepted, buffer.GetStatistics().WaitingWrites);

        var cancelled = buffer.WriteAsync(OutputHandle.Connection(node: 1, sequence: 1), Payload, cancellationToken: cancelling.Token).AsTask();
        Assert.Equal(21 - accepted, buffer.GetStatistics().WaitingWrites);
        await cancelling.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => cancelled.WithinDeadline());
        Assert.Equal(20 - accepted, buffer.GetStatistics().WaitingWrites);

        stalled.Release();
        await Until.TrueAsync(() => buffer.GetStatistics() is { AcceptedMessages: 20, WaitingWrites: 0 });
    }

    [Fact]
    public async Task What_is_buffered_never_passes_the_cap_while_many_threads_write()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { MaxBufferedBytes = 64 * 1024, MaxMessageBytes = 1024 });
        buffer.Write(Some.Connection(), Payload);
        await stalled.EnteredAsync();
        var most = 0L;

        Parallel.For(0, 2000, new ParallelOptions { MaxDegreeOfParallelism = 8 }, number =>
        {
            buffer.TryWrite(OutputHandle.Connection(node: 1, sequence: (number % 50) + 1), Payload);
            var buffered = buffer.GetStatistics().BufferedBytes;
            InterlockedMax(ref most, buffered);
        });

        Assert.InRange(most, 60 * 1024, 64 * 1024);
        stalled.Release();
        await buffer.FlushAsync().WithinDeadline();
        var statistics = buffer.GetStatistics();
        Assert.Equal((0, 0), (statistics.BufferedBytes, statistics.PendingMessages));
        Assert.Equal(statistics.AcceptedMessages, _arrived.MessageCount);
    }

    [Fact]
    public async Task A_message_of_64_MB_reaches_the_large_object_heap_once()
    {
        const int Bytes = 64 * 1024 * 1024;
        await using var buffer = new OutputBuffer(
            new Support.CountingTransport(), new OutputBufferOptions { MaxMessageBytes = Bytes, MaxBufferedBytes = 2L * Bytes + 1024 });
        var handle = Some.Connection();
        buffer.Write(handle, Payload);
        var payload = new byte[Bytes];
        var before = GC.GetAllocatedBytesForCurrentThread();

        buffer.Write(handle, payload);

        var allocated = GC.GetAllocatedBytesForCurrentThread() - before;
        Assert.InRange(allocated, Bytes, Bytes + (Bytes / 2));
        Assert.Equal(2, buffer.GetStatistics().AcknowledgedMessages);
    }

    private static void InterlockedMax(ref long target, long value)
    {
        for (var seen = Volatile.Read(ref target); seen < value;)
        {
            var before = Interlocked.CompareExchange(ref target, value, seen);
            if (before == seen)
                return;
            seen = before;
        }
    }

    [Fact]
    public async Task A_write_that_waits_for_capacity_gets_it_although_an_encoder_hangs_in_another_handle_that_holds_some()
    {
        using var released = new ManualResetEventSlim();
        await using var buffer = new OutputBuffer(new CollectingTransport(), new OutputBufferOptions { MaxBufferedBytes = 4096, MaxMessageBytes = 1000, MaxBatchBytes = 1004, Overflow = OverflowPolicy.Wait });
        var hangs = Some.Connection();
        using var scope = buffer.BeginBufferingScope(hangs);
        var hanging = HangAsync(buffer, hangs, released);
        await hanging.Entered.WithinDeadline();

        await Task.Run(async () =>
        {
            using var all = buffer.BeginBufferingScope();
            for (var message = 0; message < 20; message++)
                await buffer.WriteAsync(Some.Connection(), new byte[900]);
        }).WithinDeadline();

        released.Set();
        await hanging.Ended.WithinDeadline();
    }

    [Fact]
    public async Task A_write_that_waits_for_capacity_gets_what_handles_hold_whose_encoders_are_slow()
    {
        using var released = new ManualResetEventSlim();
        await using var buffer = new OutputBuffer(new CollectingTransport(), new OutputBufferOptions { MaxBufferedBytes = 4096, MaxBufferedBytesPerHandle = 2048, MaxMessageBytes = 1000, MaxBatchBytes = 1004, Overflow = OverflowPolicy.Wait });
        OutputHandle[] slow = [Some.Connection(), Some.Connection()];
        using var first = buffer.BeginBufferingScope(slow[0]);
        using var second = buffer.BeginBufferingScope(slow[1]);
        var encoding = slow.Select(handle => HangAsync(buffer, handle, released)).ToArray();
        await Task.WhenAll(encoding.Select(static one => one.Entered)).WithinDeadline();

        var waiting = Task.Run(() => buffer.WriteAsync(Some.Connection(), new byte[900]).AsTask());
        await Until.TrueAsync(() => buffer.GetStatistics().WaitingWrites == 1);
        released.Set();

        await waiting.WithinDeadline();
        await Task.WhenAll(encoding.Select(static one => one.Ended)).WithinDeadline();
    }

    // Fills the handle's scope, and hangs in an encoder until it is released.
    private static (Task Entered, Task Ended) HangAsync(OutputBuffer buffer, OutputHandle handle, ManualResetEventSlim released)
    {
        var entered = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        buffer.Write(handle, new byte[900]);
        buffer.Write(handle, new byte[900]);
        var ended = Task.Factory.StartNew(
            () => buffer.Write(handle, maxBytes: 10, released, (_, end) =>
            {
                entered.SetResult();
                end.Wait(Deadline.Time);
                return 0;
            }),
            CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
        return (entered.Task, ended);
    }
}

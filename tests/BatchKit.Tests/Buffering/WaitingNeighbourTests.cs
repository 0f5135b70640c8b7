using BatchKit.Batches;
using BatchKit.Dispatch;
using BatchKit.Testing;

namespace BatchKit.Tests.Buffering;

/// <summary>A write that waits for a full route keeps its turn, and holds up no one whose output has a place.</summary>
public sealed class WaitingNeighbourTests
{
    private const int Cap = 64 * 1024;

    private readonly CollectingTransport _arrived = new(sendsWithoutBlocking: false);
    private readonly ScriptedTransport _transport;
    private readonly OutputHandle _large = Some.Connection();

    public WaitingNeighbourTests() => _transport = new ScriptedTransport(_arrived);

    [Fact]
    public async Task A_small_write_of_another_handle_does_not_queue_behind_a_large_one_that_waits()
    {
        var stalled = _transport.Stall();
        await using var buffer = Buffer();
        var waiting = await FillUntilWaitingAsync(buffer, stalled, left: 8_000);

        for (var line = 0; line < 50; line++)
        {
            Assert.True(buffer.TryWrite(Some.Connection(), new byte[60]), $"Line {line} was refused.");
            await buffer.WriteAsync(Some.Connection(), new byte[60]).WithinDeadline();
        }

        Assert.False(waiting.IsCompleted);
        stalled.Release();
        await waiting.WithinDeadline();
        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal(103, _arrived.MessageCount);
        Assert.Equal(0, buffer.GetStatistics().BufferedBytes);
    }

    [Fact]
    public async Task All_that_is_free_beside_a_large_write_that_waits_can_be_used()
    {
        var stalled = _transport.Stall();
        await using var buffer = Buffer();
        var waiting = await FillUntilWaitingAsync(buffer, stalled, left: 8_000);

        while (buffer.TryWrite(Some.Connection(), new byte[96]))
            continue;

        Assert.InRange(Cap - buffer.GetStatistics().BufferedBytes, 0, 99);
        Assert.False(waiting.IsCompleted);
        stalled.Release();
        await waiting.WithinDeadline();
    }

    [Fact]
    public async Task An_encoder_that_fails_uses_up_nothing_that_others_may_pass_a_waiting_write_with()
    {
        var stalled = _transport.Stall();
        await using var buffer = Buffer();
        var waiting = await FillUntilWaitingAsync(buffer, stalled, left: 8_000);
        var bad = Some.Connection();

        for (var attempt = 0; attempt < 100; attempt++)
            Assert.Throws<FormatException>(() => buffer.Write(bad, maxBytes: 4_000, state: 0, static (_, _) => throw new FormatException("A value that can't be written.")));

        Assert.True(buffer.TryWrite(Some.Connection(), new byte[7_000]));
        stalled.Release();
        await waiting.WithinDeadline();
    }

    [Fact]
    public async Task A_scope_of_another_handle_keeps_its_order_beside_a_large_write_that_waits()
    {
        var stalled = _transport.Stall();
        await using var buffer = Buffer();
        var waiting = await FillUntilWaitingAsync(buffer, stalled, left: 8_000);
        var small = Some.Connection();

        await using (buffer.BeginBufferingScope(small))
        {
            for (var line = 0; line < 200; line++)
                await buffer.WriteAsync(small, BitConverter.GetBytes(line)).WithinDeadline();
            stalled.Release();
        }

        await waiting.WithinDeadline();
        Assert.Equal(Enumerable.Range(0, 200), _arrived.MessagesFor(small).Select(static message => BitConverter.ToInt32(message.Payload)));
    }

    [Fact]
    public async Task A_handle_that_waits_many_times_waits_once_before_another()
    {
        var stalled = _transport.Stall();
        await using var buffer = Buffer();
        var waiting = await FillUntilWaitingAsync(buffer, stalled, left: 2_000);
        Task[] more = [.. Enumerable.Range(0, 20).Select(_ => buffer.WriteAsync(_large, new byte[1_000]).AsTask())];
        var other = buffer.WriteAsync(Some.Connection(), new byte[1_900]).AsTask();

        await other.WithinDeadline();

        Assert.All(more.Append(waiting), static wait => Assert.False(wait.IsCompleted));
        stalled.Release();
        await Task.WhenAll([.. more, waiting]).WithinDeadline();
        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal([20_000, .. Enumerable.Repeat(1_000, 20)], _arrived.MessagesFor(_large).Select(static message => message.Payload.Length));
    }

    [Fact]
    public async Task A_handle_can_not_pass_its_own_write_that_waits()
    {
        var stalled = _transport.Stall();
        await using var buffer = Buffer();
        var waiting = await FillUntilWaitingAsync(buffer, stalled, left: 8_000);

        var next = buffer.WriteAsync(_large, new byte[10]).AsTask();

        Assert.False(buffer.TryWrite(_large, new byte[10]));
        Assert.False(next.IsCompleted);
        stalled.Release();
        await waiting.WithinDeadline();
        await next.WithinDeadline();
        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal([20_000, 10], _arrived.MessagesFor(_large).Select(static message => message.Payload.Length));
    }

    [Fact]
    public async Task Small_writes_without_end_do_not_starve_a_large_one()
    {
        var stalled = _transport.Stall();
        await using var buffer = Buffer();
        var waiting = await FillUntilWaitingAsync(buffer, stalled, left: 8_000);
        using var ended = new CancellationTokenSource();
        Task[] writers = [.. Enumerable.Range(0, 4).Select(_ => Task.Run(() => WriteWithoutEndAsync(buffer, ended.Token)))];

        stalled.Release();
        await waiting.WithinDeadline();

        await ended.CancelAsync();
        await Task.WhenAll(writers).WithinDeadline();
        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal(0, buffer.GetStatistics().BufferedBytes);
    }

    [Fact]
    public async Task A_write_that_waits_is_passed_by_at_most_its_own_bytes()
    {
        var budget = new ByteBudget(capacity: 10_000, routes: 1, ThreadPoolDispatchScheduler.Shared, dropsOldest: false).Parts[0];
        Assert.True(budget.TryReserve(9_500));
        var large = budget.ReserveAsync(2_000, CancellationToken.None);
        var passed = 0;

        // 500 were free; 1,500 that were settled may be taken too, and the next 2,000 are kept for the writer at the front.
        for (var settled = 0; settled < 1_500 + 2_000; settled += 100)
        {
            while (budget.TryReserve(100))
                passed += 100;
            budget.Release(100);
        }

        await large.AsTask().WithinDeadline();
        Assert.Equal(2_000, passed);
    }

    [Fact]
    public async Task A_cancelled_large_write_leaves_its_turn_to_the_next()
    {
        var stalled = _transport.Stall();
        await using var buffer = Buffer();
        using var cancellation = new CancellationTokenSource();
        var waiting = await FillUntilWaitingAsync(buffer, stalled, left: 8_000, cancellation.Token);
        var next = buffer.WriteAsync(_large, new byte[7_000]).AsTask();

        await cancellation.CancelAsync();

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => waiting.WithinDeadline());
        await next.WithinDeadline();
        stalled.Release();
    }

    [Fact]
    public async Task Stopping_ends_every_write_that_waits()
    {
        var stalled = _transport.Stall();
        var buffer = Buffer();
        var waiting = await FillUntilWaitingAsync(buffer, stalled, left: 8_000);
        Task[] more = [.. Enumerable.Range(0, 20).Select(_ => buffer.WriteAsync(_large, new byte[1_000]).AsTask())];

        var stopping = buffer.DisposeAsync().AsTask();

        foreach (var wait in more.Prepend(waiting))
            Assert.NotNull(await Record.ExceptionAsync(() => wait.WithinDeadline()));
        stalled.Release();
        await stopping.WithinDeadline();
    }

    private OutputBuffer Buffer() => new(_transport, new OutputBufferOptions { MaxBufferedBytes = Cap, MaxBufferedBytesPerHandle = Cap, MaxMessageBytes = Cap / 2, Overflow = OverflowPolicy.Wait });

    /// <returns>A write of 20,000 bytes that waits.</returns>
    private async Task<Task> FillUntilWaitingAsync(OutputBuffer buffer, StalledSend stalled, int left, CancellationToken cancellationToken = default)
    {
        buffer.Write(Some.Connection(), new byte[Cap / 2]);
        await stalled.EnteredAsync();
        buffer.Write(Some.Connection(), new byte[(Cap / 2) - left - 8]);
        var waiting = buffer.WriteAsync(_large, new byte[20_000], cancellationToken: cancellationToken).AsTask();
        Assert.False(waiting.IsCompleted);
        return waiting;
    }

    private static async Task WriteWithoutEndAsync(OutputBuffer buffer, CancellationToken ended)
    {
        try
        {
            while (true)
                await buffer.WriteAsync(Some.Connection(), new byte[100], cancellationToken: ended);
        }
        catch (OperationCanceledException) when (ended.IsCancellationRequested)
        {
        }
    }
}

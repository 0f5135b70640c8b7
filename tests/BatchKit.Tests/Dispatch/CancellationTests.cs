using BatchKit.Testing;

namespace BatchKit.Tests.Dispatch;

public sealed class CancellationTests
{
    private static readonly OutputBufferOptions Small = new() { MaxBufferedBytes = 1024, MaxMessageBytes = 1000 };

    private readonly CollectingTransport _arrived = new();
    private readonly OutputHandle _handle = Some.Connection();

    [Fact]
    public async Task A_write_whose_token_is_cancelled_already_is_not_accepted()
    {
        await using var buffer = new OutputBuffer(_arrived);

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => buffer.WriteAsync(_handle, new byte[10], cancellationToken: new CancellationToken(true)).AsTask());

        Assert.Equal((0, 0), (buffer.GetStatistics().AcceptedMessages, _arrived.MessageCount));
    }

    [Fact]
    public async Task A_write_cancelled_while_it_waits_for_capacity_is_not_accepted_and_takes_no_capacity()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, Small);
        buffer.Write(_handle, new byte[900]);
        await stalled.EnteredAsync();
        using var cancellation = new CancellationTokenSource();

        var write = buffer.WriteAsync(_handle, new byte[500], cancellationToken: cancellation.Token).AsTask();
        await cancellation.CancelAsync();

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => write.WithinDeadline());
        stalled.Release();
        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal((1, 1, 0), (_arrived.MessageCount, buffer.GetStatistics().AcceptedMessages, buffer.GetStatistics().BufferedBytes));
    }

    [Fact]
    public async Task A_cancelled_writer_lets_the_next_one_have_its_turn()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, Small);
        buffer.Write(_handle, new byte[500]);
        await stalled.EnteredAsync();
        using var cancellation = new CancellationTokenSource();

        // Of one handle, because another handle's small write does not wait behind a large one.
        var large = buffer.WriteAsync(_handle, new byte[900], cancellationToken: cancellation.Token).AsTask();
        var small = buffer.WriteAsync(_handle, new byte[10]).AsTask();
        var waitedBehind = !small.IsCompleted;
        await cancellation.CancelAsync();

        await small.WithinDeadline();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => large.WithinDeadline());
        Assert.True(waitedBehind);
        stalled.Release();
    }

    [Fact]
    [Trait("Lane", "slow: threads race again and again")]
    public async Task A_write_cancelled_at_the_moment_that_capacity_is_freed_is_accepted_whole_or_not_at_all()
    {
        var outcomes = new Dictionary<bool, int> { [true] = 0, [false] = 0 };
        for (var round = 0; round < 500; round++)
        {
            var arrived = new CollectingTransport();
            var transport = new ScriptedTransport(arrived);
            var stalled = transport.Stall();
            await using var buffer = new OutputBuffer(transport, Small);
            buffer.Write(_handle, new byte[900]);
            await stalled.EnteredAsync();
            using var cancellation = new CancellationTokenSource();
            var write = buffer.WriteAsync(_handle, new byte[500], cancellationToken: cancellation.Token).AsTask();

            using var start = new Barrier(2);
            var cancelling = Task.Run(() =>
            {
                start.SignalAndWait();
                cancellation.Cancel();
            });
            start.SignalAndWait();
            stalled.Release();
            await cancelling;
            var isIn = await Record.ExceptionAsync(() => write.WithinDeadline()) is null;
            await buffer.FlushAsync().WithinDeadline();

            Assert.Equal(isIn ? 2 : 1, arrived.MessageCount);
            Assert.Equal(isIn ? 2 : 1, buffer.GetStatistics().AcceptedMessages);
            Assert.Equal(0, buffer.GetStatistics().BufferedBytes);
            outcomes[isIn]++;
        }

        Assert.Equal(500, outcomes.Values.Sum());
    }

    [Fact]
    public async Task Cancelling_a_flush_ends_the_wait_and_not_the_sending()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport);
        buffer.Write(_handle, "line 0");
        await stalled.EnteredAsync();
        using var cancellation = new CancellationTokenSource();

        var flushOfHandle = buffer.FlushAsync(_handle, cancellation.Token).AsTask();
        var flushOfAll = buffer.FlushAsync(cancellation.Token).AsTask();
        await cancellation.CancelAsync();

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => flushOfHandle.WithinDeadline());
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => flushOfAll.WithinDeadline());
        stalled.Release();
        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal(Some.Lines(1), _arrived.Texts);
    }
}

using BatchKit.Testing;

namespace BatchKit.Tests.Buffering;

/// <summary>What the byte budget, and who waits for it, may and may not touch.</summary>
public sealed class CapacityTests
{
    private const int Cap = 16 * 1024;

    private static readonly byte[] Kilobyte = Some.RandomBytes(1000);

    private readonly CollectingTransport _arrived = new(sendsWithoutBlocking: false);
    private readonly ScriptedTransport _transport;
    private readonly OutputHandle _handle = Some.Connection();

    public CapacityTests() => _transport = new ScriptedTransport(_arrived);

    [Fact]
    public async Task Drop_oldest_drops_nothing_for_a_message_that_cannot_fit_beside_what_is_under_way()
    {
        var stalled = _transport.Stall();
        await using var buffer = Buffer(OverflowPolicy.DropOldest);
        buffer.Write(_handle, new byte[Cap / 2]);
        await stalled.EnteredAsync();
        for (var count = 0; count < 5; count++)
            buffer.Write(Some.Connection(), Kilobyte);

        var accepted = buffer.TryWrite(Some.Connection(), new byte[Cap * 3 / 4]);

        Assert.False(accepted);
        Assert.Equal((1, 0), (buffer.GetStatistics().RefusedMessages, buffer.GetStatistics().DroppedMessages));
        stalled.Release();
        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal(6, _arrived.MessageCount);
    }

    [Fact]
    public async Task A_writer_that_waits_for_capacity_touches_no_handle_that_holds_nothing()
    {
        var stalled = _transport.Stall();
        await using var buffer = Buffer(OverflowPolicy.Wait);
        buffer.Write(_handle, new byte[Cap - 2000]);
        await stalled.EnteredAsync();
        using var encoding = new ManualResetEventSlim();
        using var encoded = new ManualResetEventSlim();
        var busy = Some.Connection();

        // A message that is being encoded keeps its handle's lock.
        var encoder = OnOwnThread(() => buffer.Write(busy, maxBytes: 4, state: 0, (destination, _) =>
        {
            encoding.Set();
            encoded.Wait(Deadline.Time);
            return destination.Length;
        }));
        Assert.True(encoding.Wait(Deadline.Time));
        Task? write = null;
        var writer = OnOwnThread(() => write = buffer.WriteAsync(_handle, new byte[4000]).AsTask());

        await writer.WithinDeadline();
        Assert.False(write!.IsCompleted);
        encoded.Set();
        await encoder.WithinDeadline();
        stalled.Release();
        await write.WithinDeadline();
    }

    [Fact]
    [Trait("Lane", "slow: threads race again and again")]
    public async Task A_writer_whose_wait_is_refused_and_granted_at_once_takes_its_capacity_at_most_once()
    {
        for (var round = 0; round < 300; round++)
        {
            var stalled = _transport.Stall();
            await using var buffer = Buffer(OverflowPolicy.Wait);
            buffer.Write(_handle, new byte[Cap - 2000]);
            await stalled.EnteredAsync();
            using var cancellation = new CancellationTokenSource();
            Task[] writes = [.. Enumerable.Range(0, 4).Select(_ => buffer.WriteAsync(Some.Connection(), new byte[5000], cancellationToken: cancellation.Token).AsTask())];
            var last = buffer.WriteAsync(_handle, new byte[12_000]).AsTask();

            var cancelling = OnOwnThread(cancellation.Cancel);
            stalled.Release();
            await cancelling.WithinDeadline();
            await Task.WhenAll(writes.Select(write => Record.ExceptionAsync(() => write.WithinDeadline()).AsTask())).WithinDeadline();

            await last.WithinDeadline();
            await buffer.FlushAsync().WithinDeadline();
            Assert.All(writes, write => Assert.True(write.IsCanceled || write.IsCompletedSuccessfully));
            Assert.Equal(2 + writes.Count(write => write.IsCompletedSuccessfully), buffer.GetStatistics().AcknowledgedMessages);
            Assert.Equal(0, buffer.GetStatistics().BufferedBytes);
        }
    }

    [Fact]
    public async Task A_write_that_waits_ends_with_the_token_that_cancelled_it()
    {
        var stalled = _transport.Stall();
        await using var buffer = Buffer(OverflowPolicy.Wait);
        buffer.Write(_handle, new byte[Cap - 2000]);
        await stalled.EnteredAsync();
        using var cancellation = new CancellationTokenSource();
        var write = buffer.WriteAsync(_handle, new byte[4000], cancellationToken: cancellation.Token).AsTask();

        await cancellation.CancelAsync();

        var cancelled = await Assert.ThrowsAnyAsync<OperationCanceledException>(() => write.WithinDeadline());
        Assert.Equal(cancellation.Token, cancelled.CancellationToken);
        stalled.Release();
    }

    [Theory]
    [InlineData(OverflowPolicy.Wait)]
    [InlineData(OverflowPolicy.Fail)]
    public async Task A_write_in_a_scope_that_has_used_up_the_budget_throws_and_keeps_what_was_written(OverflowPolicy policy)
    {
        await using var buffer = Buffer(policy);
        var accepted = 0;
        using (buffer.BeginBufferingScope(_handle))
        {
            Assert.Throws<OutputOverflowException>(() =>
            {
                for (; accepted < 100; accepted++)
                    buffer.Write(_handle, Kilobyte);
            });
            Assert.Equal(0, _arrived.MessageCount);
        }

        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal(Cap / 1004, accepted);
        Assert.Equal(accepted, _arrived.MessageCount);
        Assert.Equal([1], _arrived.BatchesOfSends);
    }

    [Fact]
    public async Task A_waiting_write_in_a_scope_that_has_used_up_the_budget_sends_what_was_written_and_goes_on()
    {
        await using var buffer = Buffer(OverflowPolicy.Wait);

        await using (buffer.BeginBufferingScope(_handle))
        {
            for (var line = 0; line < 100; line++)
                await buffer.WriteAsync(_handle, Numbered(line)).WithinDeadline();
        }

        Assert.Equal(Enumerable.Range(0, 100), Numbers());
    }

    [Fact]
    public async Task Drop_newest_in_a_scope_that_has_used_up_the_budget_keeps_the_first_messages()
    {
        await using var buffer = Buffer(OverflowPolicy.DropNewest);
        var scope = buffer.BeginBufferingScope(_handle);
        for (var line = 0; line < 100; line++)
            buffer.Write(_handle, Numbered(line));

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());

        Assert.Equal(Enumerable.Range(0, Cap / 1004), Numbers());
        Assert.Equal(100 - (Cap / 1004), failure.LostMessages);
        Assert.Equal(100 - (Cap / 1004), buffer.GetStatistics().RefusedMessages);
    }

    [Fact]
    public async Task Drop_oldest_in_a_scope_that_has_used_up_the_budget_keeps_the_last_messages()
    {
        await using var buffer = Buffer(OverflowPolicy.DropOldest, maxBatchMessages: 1);
        var scope = buffer.BeginBufferingScope(_handle);
        for (var line = 0; line < 100; line++)
            buffer.Write(_handle, Numbered(line));

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());

        Assert.Equal(Enumerable.Range(100 - (Cap / 1004), Cap / 1004), Numbers());
        Assert.Equal(100 - (Cap / 1004), failure.LostMessages);
        Assert.Equal((100, 100 - (Cap / 1004)), (buffer.GetStatistics().AcceptedMessages, buffer.GetStatistics().OverflowDroppedMessages));
    }

    private OutputBuffer Buffer(OverflowPolicy policy, int maxBatchMessages = 10_000) => new(
        _transport, new OutputBufferOptions { MaxBufferedBytes = Cap, MaxBufferedBytesPerHandle = Cap, MaxMessageBytes = Cap - 100, Overflow = policy, MaxBatchMessages = maxBatchMessages });

    private static byte[] Numbered(int line)
    {
        var message = new byte[1000];
        BitConverter.TryWriteBytes(message, line);
        return message;
    }

    private IEnumerable<int> Numbers() => _arrived.MessagesFor(_handle).Select(static message => BitConverter.ToInt32(message.Payload));

    private static Task OnOwnThread(Action action) =>
        Task.Factory.StartNew(action, CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
}

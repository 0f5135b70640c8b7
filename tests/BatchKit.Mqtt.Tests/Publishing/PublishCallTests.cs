using System.Buffers;
using System.Runtime.CompilerServices;
using BatchKit.Mqtt.Publishing;
using BatchKit.Testing;

namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>Calls that are cancelled, not awaited, or asked for their result too early.</summary>
public sealed class PublishCallTests : PublishQueueTest
{
    private const int Calls = 20_000;

    private readonly MqttMessage[] _messages = [new("a", Some.Bytes("text"))];

    [Fact]
    public async Task Cancelling_many_calls_costs_each_the_same()
    {
        using var few = new CancellationTokenSource();
        using var many = new CancellationTokenSource();
        var fewCalls = Publish(Calls / 100, few.Token);
        var manyCalls = Publish(Calls, many.Token);

        var bytesOfFew = AllocatedBy(few.Cancel);
        var bytesOfMany = AllocatedBy(many.Cancel);

        Assert.InRange(bytesOfMany, 0, 2 * 100 * bytesOfFew);
        foreach (var call in fewCalls.Concat(manyCalls))
            await Assert.ThrowsAsync<OperationCanceledException>(() => call.WithinDeadline());
    }

    [Fact]
    public async Task A_cancelled_call_among_others_leaves_their_order()
    {
        using var cancellation = new CancellationTokenSource();
        var before = Publish(1, CancellationToken.None);
        var cancelled = Publish(3, cancellation.Token);
        var after = Publish(1, CancellationToken.None);

        await cancellation.CancelAsync();
        Broker.Connect();
        Broker.Take();
        Broker.AcknowledgeAll();

        await Task.WhenAll([.. before, .. after]).WithinDeadline();
        foreach (var call in cancelled)
            await Assert.ThrowsAsync<OperationCanceledException>(() => call.WithinDeadline());
        Assert.Equal(2, Broker.Arrived.Count);
    }

    [Fact]
    public async Task A_call_that_is_cancelled_without_a_connection_is_a_cancellation_that_says_why()
    {
        using var cancellation = new CancellationTokenSource();
        Queue.ConnectFailed(new MqttConnectException("Nobody is there."));
        var call = Publish(1, cancellation.Token)[0];

        await cancellation.CancelAsync();

        var canceled = await Assert.ThrowsAsync<OperationCanceledException>(() => call.WithinDeadline());
        Assert.Equal(cancellation.Token, canceled.CancellationToken);
        Assert.Equal("Nobody is there.", canceled.Message);
    }

    [Fact]
    public async Task A_send_that_is_cancelled_without_a_connection_names_the_missing_connection()
    {
        using var cancellation = new CancellationTokenSource();
        Queue.ConnectFailed(new MqttConnectException("Nobody is there."));
        var sending = Queue.SendAsync(new[] { Some.Batch(Topic("a"), Producer, 1, "1") }, cancellation.Token).AsTask();

        await cancellation.CancelAsync();

        Assert.Equal("Nobody is there.", (await Assert.ThrowsAsync<IOException>(() => sending.WithinDeadline())).Message);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_call_that_no_one_awaits_is_released_when_it_ends(bool isCancelled)
    {
        var time = new TimerWatch();
        using var queue = new PublishQueue(Options, time);
        using var lasting = new CancellationTokenSource();

        CallAndForget(queue, isCancelled, lasting.Token);
        GC.Collect();
        GC.WaitForPendingFinalizers();
        GC.Collect();

        Assert.False(Assert.Single(time.States).IsAlive);
    }

    [Fact]
    public async Task A_result_that_is_taken_too_early_is_an_error_and_the_call_goes_on()
    {
        Broker.Connect();
        var call = Queue.PublishManyAsync(_messages, CancellationToken.None);
        var send = Queue.SendAsync(new[] { Some.Batch(Topic("b"), Producer, 1, "batch") }, CancellationToken.None);
        var (callsAwaiter, sendsAwaiter) = (call.GetAwaiter(), send.GetAwaiter());

        Assert.Throws<InvalidOperationException>(() => callsAwaiter.GetResult());
        Assert.Throws<InvalidOperationException>(() => sendsAwaiter.GetResult());
        var nextCall = Publish(1, CancellationToken.None)[0];
        var nextSend = Send(Some.Batch(Topic("b"), Some.Producer(), 1, "next batch"));
        Broker.Take();
        Broker.AcknowledgeAll();

        await Task.WhenAll(call.AsTask(), send.AsTask(), nextCall, nextSend).WithinDeadline();
        Assert.Equal(["text", "batch", "text", "next batch"], Broker.Texts);
    }

    [Fact]
    public async Task A_message_whose_memory_was_disposed_is_refused_alone()
    {
        var call = Queue.PublishManyAsync(new[] { new MqttMessage("a", Some.Bytes("first")), new MqttMessage("a", new DisposedMemory().Bytes), new MqttMessage("a", Some.Bytes("last")) }).AsTask();

        Broker.Connect();
        Broker.Take();
        Broker.AcknowledgeAll();

        var report = await call.WithinDeadline();
        Assert.Equal([true, false, true], Enumerable.Range(0, 3).Select(index => report[index].IsSuccess));
        Assert.Contains(nameof(ObjectDisposedException), report[1].Reason, StringComparison.Ordinal);
        Assert.Equal(["first", "last"], Broker.Texts);
    }

    private static long AllocatedBy(Action action)
    {
        var before = GC.GetAllocatedBytesForCurrentThread();
        action();
        return GC.GetAllocatedBytesForCurrentThread() - before;
    }

    private Task[] Publish(int calls, CancellationToken cancellationToken) =>
        [.. Enumerable.Range(0, calls).Select(_ => Queue.PublishManyAsync(_messages, cancellationToken).AsTask())];

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void CallAndForget(PublishQueue queue, bool isCancelled, CancellationToken lasting)
    {
        var broker = new SimulatedBroker(queue);
        broker.Connect();
        using var cancellation = CancellationTokenSource.CreateLinkedTokenSource(lasting);
        var call = queue.PublishManyAsync(_messages, isCancelled ? cancellation.Token : lasting);
        broker.Take();
        if (isCancelled)
            cancellation.Cancel();
        else
            broker.AcknowledgeAll();
        Assert.True(call.IsCompleted);
    }

    private sealed class DisposedMemory : MemoryManager<byte>
    {
        public ReadOnlyMemory<byte> Bytes => CreateMemory(1);

        public override Span<byte> GetSpan() => throw new ObjectDisposedException(nameof(DisposedMemory));

        public override MemoryHandle Pin(int elementIndex = 0) => throw new ObjectDisposedException(nameof(DisposedMemory));

        public override void Unpin()
        {
        }

        protected override void Dispose(bool disposing)
        {
        }
    }

    /// <summary>Knows what its timers were created for, without keeping it alive: a call's timer is created for the call.</summary>
    private sealed class TimerWatch : TimeProvider
    {
        public List<WeakReference> States { get; } = [];

        public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period)
        {
            States.Add(new WeakReference(state));
            return base.CreateTimer(callback, state, dueTime, period);
        }
    }
}

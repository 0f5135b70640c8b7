using System.Diagnostics;
using System.Reflection;
using BatchKit.Testing;
using BatchKit.Tests.Buffering;
using BatchKit.Transports;

namespace BatchKit.Tests.Transports;

[Collection(nameof(MeasuresMemory))]
public sealed class BatchReceiverAllocationTests
{
    // An unoptimised build makes an object of each async method's state: two a frame. The build that is packed has none.
    private static readonly long StateBytesPerFrame = IsOptimised(typeof(BatchReceiver).Assembly) ? 0 : 216;

    [Fact]
    public void Receiving_allocates_nothing_in_the_steady_state()
    {
        var next = new ForgetfulTransport();
        var receiver = new BatchReceiver(next, new BatchReceiverOptions { FilterDuplicates = true });
        var frames = Frames(count: 2000);
        ReceiveAll(receiver, frames.AsSpan(0, 1000));

        var before = GC.GetAllocatedBytesForCurrentThread();
        ReceiveAll(receiver, frames.AsSpan(1000));
        var allocated = GC.GetAllocatedBytesForCurrentThread() - before;

        Assert.Equal(1000 * StateBytesPerFrame, allocated);
        Assert.Equal(2000 * 51, next.Messages);
    }

    [Fact]
    public void A_handler_costs_no_memory_for_each_message_in_the_steady_state()
    {
        var transport = new HandlerTransport(new ForgetfulHandler());
        var producer = Some.Producer();
        MessageBatch[] few = [Some.Batch(Some.Connection(), producer, 1, Some.Lines(10))];
        MessageBatch[] many = [Some.Batch(Some.Connection(), producer, 2, Some.Lines(1000))];
        SendAll(transport, many);

        var (forFew, forMany) = (SendAll(transport, few), SendAll(transport, many));

        Assert.Equal(forFew, forMany);
    }

    private static long SendAll(HandlerTransport transport, MessageBatch[] batches)
    {
        var before = GC.GetAllocatedBytesForCurrentThread();
        for (var send = 0; send < 100; send++)
            transport.SendAsync(batches, CancellationToken.None).GetAwaiter().GetResult();
        return GC.GetAllocatedBytesForCurrentThread() - before;
    }

    private static bool IsOptimised(Assembly assembly) => assembly.GetCustomAttribute<DebuggableAttribute>()?.IsJITOptimizerDisabled != true;

    private static byte[][] Frames(int count)
    {
        var producer = Some.Producer();
        var connection = Some.Connection();
        var group = Some.Group();
        return [.. Enumerable.Range(1, count).Select(frame => Some.Frame(
            Some.Batch(connection, producer, (2 * frame) - 1, Some.Lines(50)),
            Some.Batch(group, producer, 2 * frame, "to all")))];
    }

    private static void ReceiveAll(BatchReceiver receiver, ReadOnlySpan<byte[]> frames)
    {
        foreach (var frame in frames)
        {
            var receiving = receiver.ReceiveAsync(frame, CancellationToken.None);
            Assert.True(receiving.IsCompletedSuccessfully);
            receiving.GetAwaiter().GetResult();
        }
    }

    private sealed class ForgetfulHandler : IMessageHandler
    {
        public ValueTask HandleAsync(IReadOnlyList<ReceivedMessage> batch, CancellationToken cancellationToken) => default;
    }

    /// <summary>Counts and completes at once.</summary>
    private sealed class ForgetfulTransport : IBatchTransport
    {
        public int Messages { get; private set; }

        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            foreach (var batch in batches.Span)
                Messages += batch.Count;
            return ValueTask.CompletedTask;
        }
    }
}

using System.Buffers.Binary;
using System.Collections.Concurrent;
using BatchKit.Transports;

namespace BatchKit.Tests.Buffering;

public sealed class ManyThreadsTests
{
    private const int Threads = 8;
    private const int Handles = 10_000;
    private const int Depth = 8;
    private const int MessagesPerHandle = 100;

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Ten_thousand_scopes_eight_deep_closed_on_any_thread_leave_one_batch_each_with_every_message_in_order(bool inline)
    {
        var arrived = new OrderCheckingTransport(Handles, inline);
        await using var buffer = new OutputBuffer([new OutputRoute("only", arrived, partitions: 4)]);
        var closings = new ConcurrentBag<BufferingScope>();

        Parallel.For(0, Handles, new ParallelOptions { MaxDegreeOfParallelism = Threads }, number =>
        {
            WriteNested(buffer, number, closings);

            // Another thread's scopes as often as this one's own.
            for (var count = 0; count < Depth && closings.TryTake(out var scope); count++)
                scope.Dispose();
        });
        foreach (var scope in closings)
            scope.Dispose();
        await buffer.FlushAsync().WithinDeadline();

        Assert.Empty(arrived.Faults);
        Assert.Equal((Handles, Handles * MessagesPerHandle), (arrived.Batches, arrived.Messages));
        Assert.Equal((Handles, Handles * MessagesPerHandle), (buffer.GetStatistics().Batches, buffer.GetStatistics().AcknowledgedMessages));
    }

    [Theory]
    [InlineData(true, 65_536)]
    [InlineData(false, 65_536)]
    [InlineData(true, 0)]
    [InlineData(false, 0)]
    public async Task Writers_on_many_threads_that_share_handles_each_keep_their_order(bool inline, int maxIdleHandles)
    {
        const int Shared = 16;
        const int Each = 10_000;
        var arrived = new OrderCheckingTransport(Shared * Threads, inline);
        var options = new OutputBufferOptions { MaxBatchMessages = 64, MaxIdleHandles = maxIdleHandles };
        await using var buffer = new OutputBuffer([new OutputRoute("only", arrived, partitions: 2)], options: options);

        // A writer's messages for a handle are a lane of their own in the check.
        var writers = Enumerable.Range(0, Threads).Select(writer => Task.Run(async () =>
        {
            var random = new Random(writer);
            var next = new int[Shared];
            for (var count = 0; count < Each; count++)
            {
                var target = random.Next(Shared);
                var handle = OutputHandle.Connection(node: 1, target + 1);
                using var scope = OpenSome(buffer, handle, random.Next(20));
                await buffer.WriteAsync(handle, OrderCheckingTransport.Payload(lane: (target * Threads) + writer, next[target]++));
                if (random.Next(50) == 0)
                    await buffer.FlushAsync(handle);
            }
        })).ToArray();
        await Task.WhenAll(writers).WithinDeadline();
        await buffer.FlushAsync().WithinDeadline();

        var statistics = buffer.GetStatistics();
        Assert.Empty(arrived.Faults);
        Assert.Equal(Threads * Each, arrived.Messages);
        Assert.Equal((Threads * Each, Threads * Each, 0), (statistics.AcceptedMessages, statistics.AcknowledgedMessages, statistics.PendingMessages));
        Assert.Equal((0, 0), (statistics.BufferedBytes, statistics.OpenScopes));
    }

    private static BufferingScope OpenSome(OutputBuffer buffer, OutputHandle handle, int choice) => choice switch
    {
        < 4 => buffer.BeginBufferingScope(handle),
        < 6 => buffer.BeginBufferingScope(),
        _ => default,
    };

    private static void WriteNested(OutputBuffer buffer, int number, ConcurrentBag<BufferingScope> closings)
    {
        var handle = OutputHandle.Connection(node: 1, number + 1);
        var scopes = new BufferingScope[Depth];
        for (var level = 0; level < Depth; level++)
            scopes[level] = buffer.BeginBufferingScope(handle);
        for (var message = 0; message < MessagesPerHandle; message++)
            buffer.Write(handle, OrderCheckingTransport.Payload(lane: number, message));
        foreach (var scope in scopes)
            closings.Add(scope);
    }

    /// <summary>Counts, and checks that the messages of each lane come as 0, 1, 2 and so on.</summary>
    private sealed class OrderCheckingTransport(int lanes, bool inline) : IBatchTransport
    {
        private readonly int[] _next = new int[lanes];
        private int _batches;
        private int _messages;

        public bool SendsWithoutBlocking => inline;

        public ConcurrentQueue<string> Faults { get; } = new();

        public int Batches => Volatile.Read(ref _batches);

        public int Messages => Volatile.Read(ref _messages);

        public static byte[] Payload(int lane, int message)
        {
            var payload = new byte[8];
            BinaryPrimitives.WriteInt32LittleEndian(payload, lane);
            BinaryPrimitives.WriteInt32LittleEndian(payload.AsSpan(4), message);
            return payload;
        }

        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            Interlocked.Add(ref _batches, batches.Length);
            foreach (var batch in batches.Span)
            {
                Interlocked.Add(ref _messages, batch.Count);
                foreach (var message in batch)
                    Check(message.Payload.Span);
            }

            return ValueTask.CompletedTask;
        }

        private void Check(ReadOnlySpan<byte> payload)
        {
            var lane = BinaryPrimitives.ReadInt32LittleEndian(payload);
            var message = BinaryPrimitives.ReadInt32LittleEndian(payload[4..]);
            if (_next[lane] != message)
                Faults.Enqueue($"lane {lane}: message {message} came where {_next[lane]} was due");
            _next[lane] = message + 1;
        }
    }
}

using System.Buffers.Binary;
using BatchKit.Transports;

namespace BatchKit.Tests.Buffering;

/// <summary>Latest values written on many threads, beside other messages, while sends are under way.</summary>
public sealed class LatestValueThreadsTests
{
    private const int Threads = 8;
    private const int Handles = 4;
    private const int KeysPerThread = 5;
    private const int Each = 20_000;
    private const int Plain = Threads * KeysPerThread;

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Each_value_that_arrives_is_newer_the_newest_does_and_what_was_replaced_is_counted(bool inline)
    {
        var arrived = new NewestTransport(inline);
        var options = new OutputBufferOptions { MaxBatchMessages = 64 };
        await using var buffer = new OutputBuffer([new OutputRoute("only", arrived, partitions: 2)], options: options);

        var written = await Task.WhenAll(Enumerable.Range(0, Threads).Select(writer => Task.Run(() => Write(buffer, writer)))).WithinDeadline();
        await buffer.FlushAsync().WithinDeadline();

        var statistics = buffer.GetStatistics();
        Assert.Null(arrived.Fault);
        foreach (var (key, value) in written.SelectMany(newest => newest))
            Assert.Equal(value, arrived.Newest(key));
        Assert.Equal(Threads * Each, statistics.AcceptedMessages);
        Assert.Equal(statistics.AcceptedMessages, statistics.AcknowledgedMessages + statistics.SupersededMessages);
        Assert.NotEqual(0, statistics.SupersededMessages);
        Assert.Equal((arrived.Messages, 0, 0), (statistics.AcknowledgedMessages, statistics.PendingMessages, statistics.BufferedBytes));
    }

    // Of the writer's own keys on each handle, the newest value; beside them, messages that must all arrive, each with a number one higher.
    private static Dictionary<int, int> Write(OutputBuffer buffer, int writer)
    {
        var random = new Random(writer);
        var newest = new Dictionary<int, int>();
        for (var count = 0; count < Each; count++)
        {
            var handle = random.Next(Handles);
            var key = random.Next(10) == 0 ? Plain + writer : (writer * KeysPerThread) + random.Next(KeysPerThread);
            var lane = (handle * (Plain + Threads)) + key;
            var value = newest[lane] = newest.GetValueOrDefault(lane) + 1;
            var payload = new byte[8 + random.Next(40)];
            BinaryPrimitives.WriteInt32LittleEndian(payload, lane);
            BinaryPrimitives.WriteInt32LittleEndian(payload.AsSpan(4), value);
            payload.AsSpan(8).Fill((byte)value);
            using var scope = random.Next(20) == 0 ? buffer.BeginBufferingScope(Handle(handle)) : default;
            if (key < Plain)
                buffer.WriteLatest(Handle(handle), key, payload);
            else
                buffer.Write(Handle(handle), payload);
        }

        return newest;
    }

    private static OutputHandle Handle(int number) => number % 2 == 0 ? OutputHandle.Connection(node: 1, number + 1) : OutputHandle.Named($"group {number}");

    /// <summary>Checks that the values of each key rise, those of other messages one by one, and that each is whole.</summary>
    private sealed class NewestTransport(bool inline) : IBatchTransport
    {
        private readonly int[] _newest = new int[Handles * (Plain + Threads)];
        private long _messages;

        public bool SendsWithoutBlocking => inline;

        public string? Fault { get; private set; }

        public long Messages => Volatile.Read(ref _messages);

        public int Newest(int lane) => Volatile.Read(ref _newest[lane]);

        public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            foreach (var batch in batches.Span)
            {
                Interlocked.Add(ref _messages, batch.Count);
                foreach (var message in batch)
                    Check(message.Payload.Span);
            }

            await Task.Yield();
            foreach (var batch in batches.Span)
                CheckWhole(batch);
        }

        private void Check(ReadOnlySpan<byte> payload)
        {
            var (lane, value) = (BinaryPrimitives.ReadInt32LittleEndian(payload), BinaryPrimitives.ReadInt32LittleEndian(payload[4..]));
            var before = Newest(lane);
            if (lane % (Plain + Threads) < Plain ? value <= before : value != before + 1)
                Fault = $"lane {lane}: {value} came behind {before}";
            Volatile.Write(ref _newest[lane], value);
        }

        private void CheckWhole(MessageBatch batch)
        {
            foreach (var message in batch)
            {
                var payload = message.Payload.Span;
                if (payload[8..].ContainsAnyExcept((byte)BinaryPrimitives.ReadInt32LittleEndian(payload[4..])))
                    Fault = "a message changed while it was sent";
            }
        }
    }
}

using System.Collections.Concurrent;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Options;

namespace BatchKit.Tests.Transports;

/// <summary>Whatever a buffer accepts fits a frame of its route, with all that the frame has besides payloads.</summary>
public sealed class FrameCapacityTests
{
    private const int LeastFrameBytes = 4096;

    private readonly ConcurrentQueue<byte[]> _frames = new();

    public static TheoryData<string> Shapes => [.. HeaderOf.Keys];

    private static Dictionary<string, Func<int, MessageHeader?>> HeaderOf { get; } = new(StringComparer.Ordinal)
    {
        ["without headers"] = static _ => null,
        ["with headers of 140 bytes"] = static message => new MessageHeader { Key = $"{message,140}" },
        ["with many properties"] = static message => new MessageHeader { Properties = [.. Enumerable.Range(0, 20).Select(property => KeyValuePair.Create($"{message}:{property}", "ü"))] },
        ["with many excluded connections"] = static message => new MessageHeader { ExcludedConnections = [.. Enumerable.Range(1, 50).Select(number => OutputHandle.Connection(1023, message + number))] },
        ["with types in turn"] = static message => new MessageHeader { Type = $"type {message % 100}", ContentType = "application/json" },
        ["with one header in turn with none"] = static message => message % 2 == 0 ? MessageHeader.Prompt : null,
        ["with correlation data"] = static message => new MessageHeader { CorrelationData = [.. BitConverter.GetBytes(message), .. new byte[100]], ReplyTo = $"{message}" },
        ["with one header for all"] = static _ => MessageHeader.Prompt,
    };

    [Theory]
    [MemberData(nameof(Shapes))]
    public async Task Ten_thousand_small_messages_arrive(string shape)
    {
        await AssertArrivesAsync(new OutputBufferOptions(), new FrameTransportOptions(), Some.Connection(), 10_000, HeaderOf[shape]);
        await AssertArrivesAsync(
            new OutputBufferOptions { MaxBatchBytes = LeastFrameBytes - FrameWriter.OverheadBytes }, new FrameTransportOptions { MaxFrameBytes = LeastFrameBytes, Signer = new FrameSigner(Some.RandomBytes(32)) },
            OutputHandle.Named(new string('n', 2000)), 2000, HeaderOf[shape]);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2000)]
    [InlineData(OutputHandle.MaxNameBytes)]
    public async Task The_largest_message_that_is_accepted_for_a_name_arrives(int nameBytes)
    {
        var handle = OutputHandle.Named(new string('n', nameBytes));
        using var transport = Transport(new FrameTransportOptions());
        await using var buffer = new OutputBuffer(transport);
        var largest = transport.MaxMessageBytes - nameBytes;

        buffer.Write(handle, new byte[largest]);
        await buffer.FlushAsync().WithinDeadline();
        var refusal = Assert.Throws<OutputOverflowException>(() => buffer.Write(handle, new byte[largest + 1]));

        Assert.Equal((1, 0), (buffer.GetStatistics().AcknowledgedMessages, buffer.GetStatistics().FailedMessages));
        Assert.Contains($"{nameBytes} of its handle's name", refusal.Message, StringComparison.Ordinal);
        Assert.Contains("raise FrameTransportOptions.MaxFrameBytes", refusal.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_batch_that_fits_no_frame_of_a_route_is_refused_at_the_start()
    {
        using var transport = Transport(new FrameTransportOptions { MaxFrameBytes = LeastFrameBytes });

        var refusal = Assert.Throws<OptionsValidationException>(() => new OutputBuffer([new OutputRoute("local", new CollectingTransport()), new OutputRoute("remote", transport)]));

        Assert.Equal(
            "OutputBufferOptions.MaxBatchBytes (65536) must be at most 3072, which is the largest batch that route 'remote' takes. Lower it, or raise FrameTransportOptions.MaxFrameBytes.", refusal.Message);
    }

    [Fact]
    public async Task A_limit_that_a_route_learns_when_it_connects_holds_for_the_batches_from_then_on()
    {
        var route = new NarrowingRoute();
        await using var buffer = new OutputBuffer(route);
        OutputHandle[] handles = [Some.Connection(), OutputHandle.Named(new string('n', 500))];
        Array.ForEach(handles, handle => buffer.Write(handle, "connects"));
        await buffer.FlushAsync().WithinDeadline();

        foreach (var handle in handles)
        {
            using (buffer.BeginBufferingScope(handle))
            {
                for (var message = 0; message < 100; message++)
                    buffer.Write(handle, new byte[100]);
            }
        }

        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal(0, buffer.GetStatistics().FailedMessages);
        Assert.Equal(202, buffer.GetStatistics().AcknowledgedMessages);
    }

    private async Task AssertArrivesAsync(OutputBufferOptions options, FrameTransportOptions frames, OutputHandle handle, int messages, Func<int, MessageHeader?> headerOf)
    {
        _frames.Clear();
        using var transport = Transport(frames);
        await using var buffer = new OutputBuffer(transport, options);

        using (buffer.BeginBufferingScope(handle))
        {
            for (var message = 0; message < messages; message++)
                buffer.Write(handle, BitConverter.GetBytes((short)message), headerOf(message));
        }

        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal((messages, 0), (buffer.GetStatistics().AcknowledgedMessages, buffer.GetStatistics().FailedMessages));
        Assert.InRange(_frames.Max(static frame => frame.Length), 1, frames.MaxFrameBytes);
        Assert.Equal(Enumerable.Range(0, messages), Numbers(frames.Signer is null ? 0 : FrameSigner.OverheadBytes));
    }

    private List<int> Numbers(int signatureBytes)
    {
        var numbers = new List<int>();
        foreach (var bytes in _frames)
        {
            using var frame = FrameReader.Read(bytes.AsMemory(signatureBytes));
            foreach (var batch in frame.Batches.Span)
            {
                foreach (var message in batch)
                    numbers.Add(BitConverter.ToInt16(message.Payload.Span));
            }
        }

        return numbers;
    }

    private FrameTransport Transport(FrameTransportOptions options) => new((frame, _) =>
    {
        _frames.Enqueue(frame.Bytes.ToArray());
        return ValueTask.CompletedTask;
    }, options);

    /// <summary>Refuses what is larger than a limit that it learns with its first send.</summary>
    private sealed class NarrowingRoute : IBatchTransport
    {
        private const int BrokersLimit = 1500;

        public int MaxBatchBytes { get; private set; } = int.MaxValue;

        public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            await Task.Yield();
            MaxBatchBytes = BrokersLimit;
            BatchOutcome[] outcomes = [.. batches.ToArray().Select(static batch => BytesOf(batch) > BrokersLimit ? BatchOutcome.Refused : BatchOutcome.Acknowledged)];
            if (outcomes.Contains(BatchOutcome.Refused))
                throw new BatchSendException([.. outcomes], "A batch is above the broker's limit.");
        }

        private static int BytesOf(MessageBatch batch) => batch.Payload.Length + (batch.Count * OutputBufferOptions.MessageOverheadBytes) + (batch.Handle.Name?.Length ?? 0);
    }
}

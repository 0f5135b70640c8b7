using System.Buffers;
using System.Text;
using BatchKit.Transports;

namespace BatchKit.Testing;

/// <summary>Creates test values. What the test does not specify is valid, and unique where two tests could disturb each other.</summary>
public static class Some
{
    private static long _lastSequence;

    /// <summary>A connection that no other call returns.</summary>
    /// <param name="node">The connection's node.</param>
    public static OutputHandle Connection(int node = 1) => OutputHandle.Connection(node, Interlocked.Increment(ref _lastSequence));

    /// <summary>A group that no other call returns, in this process or another.</summary>
    public static OutputHandle Group() => OutputHandle.Named(Name("group"));

    /// <summary>A name that no other call returns, in this process or another: for queues and topics at a shared broker.</summary>
    /// <param name="start">What the name starts with.</param>
    public static string Name(string start) => $"{start}-{Guid.NewGuid():n}";

    /// <summary>A producer that no other call returns, with a random epoch.</summary>
    /// <param name="node">The producer's node.</param>
    /// <param name="partition">The producer's partition.</param>
    public static ProducerId Producer(int node = 0, int partition = 0) => new(node, Random.Shared.NextInt64(1, long.MaxValue), partition);

    /// <summary>A text's UTF-8 bytes.</summary>
    /// <param name="text">The text.</param>
    public static byte[] Bytes(string text) => Encoding.UTF8.GetBytes(text);

    /// <summary>Random bytes, the same for the same seed.</summary>
    /// <param name="count">How many.</param>
    /// <param name="seed">The seed of the random numbers.</param>
    public static byte[] RandomBytes(int count, int seed = 1)
    {
        var bytes = new byte[count];
        new Random(seed).NextBytes(bytes);
        return bytes;
    }

    /// <summary>A message with this text as UTF-8.</summary>
    /// <param name="text">The text.</param>
    /// <param name="header">The message's header; null for a plain message.</param>
    public static BatchMessage Message(string text, MessageHeader? header = null) => new(Bytes(text), header);

    /// <summary>A batch of plain messages.</summary>
    /// <param name="handle">The destination.</param>
    /// <param name="producer">The producer that numbers it.</param>
    /// <param name="number">Its number.</param>
    /// <param name="texts">The messages' texts, in order.</param>
    public static MessageBatch Batch(OutputHandle handle, ProducerId producer, long number, params string[] texts) =>
        MessageBatch.Create(handle, producer, number, Array.ConvertAll(texts, text => Message(text)));

    /// <summary>These batches as one frame, as a transport sends them to a broker.</summary>
    /// <param name="batches">The batches, all of one producer.</param>
    public static byte[] Frame(params ReadOnlySpan<MessageBatch> batches)
    {
        var output = new ArrayBufferWriter<byte>();
        FrameWriter.Write(output, batches);
        return output.WrittenSpan.ToArray();
    }

    /// <summary>Numbered texts: <c>line 0</c>, <c>line 1</c> and so on.</summary>
    /// <param name="count">How many.</param>
    /// <param name="start">The first number.</param>
    public static string[] Lines(int count, int start = 0) => [.. Enumerable.Range(start, count).Select(static line => $"line {line}")];

    /// <summary>A header that has everything except a type: a kind, excluded connections, a key, a content type, reply-to, correlation data, the retain flag and properties, one of them twice.</summary>
    public static MessageHeader FullHeader() => new()
    {
        Kind = MessageKind.Prompt,
        ExcludedConnections = [Connection(), Connection(node: OutputHandle.MaxNode)],
        Key = "key äöü",
        ContentType = "application/json",
        ReplyTo = "answers/äöü",
        CorrelationData = [0, 1, 255],
        IsRetained = true,
        Properties = [new("first", "one"), new("second", ""), new("first", "again €")],
    };
}

using System.Buffers;
using System.Text;
using BatchKit.Transports;

namespace BatchKit.Testing;

/// <summary>Makers of test values. What is not asked for is some valid value, different each time where that matters.</summary>
public static class Some
{
    private static long _lastSequence;

    /// <summary>A connection that no other test has.</summary>
    public static OutputHandle Connection(int node = 1) => OutputHandle.Connection(node, Interlocked.Increment(ref _lastSequence));

    /// <summary>A group that no other test has.</summary>
    public static OutputHandle Group() => OutputHandle.Named(Name("group"));

    /// <summary>A name that no other test has, on this machine or at a shared broker.</summary>
    public static string Name(string start) => $"{start}-{Guid.NewGuid():n}";

    /// <summary>A producer that no other test has.</summary>
    public static ProducerId Producer(int node = 0, int lane = 0) => new(node, Random.Shared.NextInt64(1, long.MaxValue), lane);

    /// <summary>Bytes of UTF-8.</summary>
    public static byte[] Bytes(string text) => Encoding.UTF8.GetBytes(text);

    /// <summary>Random bytes, the same for the same seed.</summary>
    public static byte[] RandomBytes(int count, int seed = 1)
    {
        var bytes = new byte[count];
        new Random(seed).NextBytes(bytes);
        return bytes;
    }

    /// <summary>A plain message.</summary>
    public static BatchMessage Message(string text, MessageHeader? header = null) => new(Bytes(text), header);

    /// <summary>A batch of plain messages.</summary>
    public static MessageBatch Batch(OutputHandle handle, ProducerId producer, long number, params string[] texts) =>
        MessageBatch.Create(handle, producer, number, Array.ConvertAll(texts, text => Message(text)));

    /// <summary>The frame of these batches.</summary>
    public static byte[] Frame(params ReadOnlySpan<MessageBatch> batches)
    {
        var output = new ArrayBufferWriter<byte>();
        FrameWriter.Write(output, batches);
        return output.WrittenSpan.ToArray();
    }

    /// <summary>Texts that say their places: <c>line 0</c>, <c>line 1</c> and so on.</summary>
    public static string[] Lines(int count, int start = 0) => [.. Enumerable.Range(start, count).Select(line => $"line {line}")];

    /// <summary>A header with everything in it.</summary>
    public static MessageHeader FullHeader() => new()
    {
        Kind = MessageKind.Prompt,
        ExcludedConnections = [Connection(), Connection(node: OutputHandle.MaxNode)],
        Key = "key äöü",
        ContentType = "application/json",
        Properties = [new("first", "one"), new("second", ""), new("first", "again €")],
    };
}

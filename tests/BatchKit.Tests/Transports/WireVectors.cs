using System.Buffers;
using System.Diagnostics;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Transports;

/// <summary>A frame for each part of the format. Its name is that of its file in docs/wire-format/vectors.</summary>
internal static class WireVectors
{
    private static readonly ProducerId Producer = new(7, -2, 3);
    private static readonly OutputHandle Connection = OutputHandle.Connection((7L << 32) + 5);
    private static readonly OutputHandle Room = OutputHandle.Named("räume/1");

    private static readonly MessageHeader Said = new() { Type = "Said", ContentType = "application/json" };

    private static readonly MessageHeader Full = new()
    {
        Kind = MessageKind.Control,
        ExcludedConnections = [Connection, OutputHandle.Connection(long.MaxValue)],
        Key = "a key",
        ContentType = "text/plain",
        Type = "Moved",
        ReplyTo = "replies/7",
        CorrelationData = [0, 255],
        IsRetained = true,
        Properties = [new("traceparent", "00-1"), new("traceparent", "00-2"), new("empty", "")],
    };

    public static Dictionary<string, byte[]> Make() => new(StringComparer.Ordinal)
    {
        ["one-message"] = Frame(Batch(Connection, 1, Message("hello"))),
        ["messages-and-empty-ones"] = Frame(Batch(Room, long.MaxValue, Message("a"), Message(""), Message(new string('b', 300)))),
        ["headers"] = Frame(Batch(Connection, 1, Message("> ", MessageHeader.Prompt), Message("plain"), Message("full", Full))),
        ["same-headers"] = Frame(Batch(Connection, 1, [.. Enumerable.Repeat(Message("x", Said), 200), Message("y"), Message("z", Said), Message("w", new MessageHeader { Type = "Said" })])),
        ["handles-in-turn"] = Frame([.. Enumerable.Range(1, 90).Select(number => Batch(number % 2 == 0 ? Room : Connection, number, Message($"{number}", number % 3 == 0 ? Said : null)))]),
        ["latest-values"] = Frame(Latest(Batch(Room, 1, Message("a"), Message("b"), Message("c", Said), Message("d")), new(0, 0), new(2, -1), new(3, long.MinValue)), Latest(Batch(Room, 2, Message("e")), new LatestMessage(0, long.MaxValue))),
        ["trace"] = Frame(new ActivityContext(ActivityTraceId.CreateFromString("0af7651916cd43dd8448eb211c80319c"), ActivitySpanId.CreateFromString("b7ad6b7169203331"), ActivityTraceFlags.Recorded), Batch(Room, 9, Message("traced"))),
        ["version-1"] = [.. "BKF"u8, 1, 7, 1, 0, 0, 0, 0, 0, 0, 0, 3, 1, 3, 1, 4, .. "room"u8, 2, 3, 1, 2, 1, 1, 0x38, 1, (byte)'k', 1, (byte)'t', 1, 1, (byte)'n', 1, (byte)'v', .. "abc"u8],
    };

    private static byte[] Frame(params MessageBatch[] batches) => Frame(default, batches);

    private static byte[] Frame(ActivityContext trace, params MessageBatch[] batches)
    {
        var frame = new ArrayBufferWriter<byte>();
        FrameWriter.Write(frame, batches, trace);
        return frame.WrittenSpan.ToArray();
    }

    private static MessageBatch Batch(OutputHandle handle, long number, params BatchMessage[] messages) => MessageBatch.Create(handle, Producer, number, messages);

    private static MessageBatch Latest(MessageBatch batch, params LatestMessage[] latest)
    {
        batch.AssignLatest(latest, latest.Length);
        return batch;
    }

    private static BatchMessage Message(string text, MessageHeader? header = null) => Some.Message(text, header);
}

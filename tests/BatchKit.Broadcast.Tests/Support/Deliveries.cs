using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Tests.Support;

/// <summary>What tests of the transport have in common: sending batches, and the law of its counters.</summary>
internal static class Deliveries
{
    private static readonly ProducerId Producer = Some.Producer();
    private static long _lastNumber;

    public static MessageBatch To(OutputHandle handle, params BatchMessage[] messages) =>
        MessageBatch.Create(handle, Producer, Interlocked.Increment(ref _lastNumber), messages);

    public static MessageBatch To(OutputHandle handle, params string[] texts) => To(handle, Array.ConvertAll(texts, text => Some.Message(text)));

    public static MessageBatch ToGroup(string group, params string[] texts) => To(OutputHandle.Named(group), texts);

    public static MessageBatch ToGroup(string group, params BatchMessage[] messages) => To(OutputHandle.Named(group), messages);

    public static BatchMessage Control(ControlMessage control) => new(control.ToPayload(), MessageHeader.Control);

    public static BatchMessage Excluding(string text, params OutputHandle[] excluded) =>
        Some.Message(text, new MessageHeader { ExcludedConnections = [.. excluded] });

    public static Task SendAsync(this BroadcastTransport transport, params MessageBatch[] batches) =>
        transport.SendAsync(batches, CancellationToken.None).WithinDeadline();

    /// <summary>Checks that accepted = sent + dropped + failed + pending, in messages and in bytes.</summary>
    public static void AssertAddsUp(this BroadcastStatistics counted)
    {
        Assert.Equal(counted.AcceptedMessages, counted.FoundMessages());
        Assert.Equal(counted.AcceptedBytes, counted.FoundBytes());
    }

    public static bool AddsUp(this BroadcastStatistics counted) =>
        counted.AcceptedMessages == counted.FoundMessages() && counted.AcceptedBytes == counted.FoundBytes();

    private static long FoundMessages(this BroadcastStatistics counted) =>
        counted.SentMessages + counted.DroppedOldestMessages + counted.DroppedNewestMessages + counted.DroppedSlowConsumerMessages
        + counted.DroppedClosedMessages + counted.SupersededMessages + counted.FailedMessages + counted.PendingMessages;

    private static long FoundBytes(this BroadcastStatistics counted) =>
        counted.SentBytes + counted.DroppedOldestBytes + counted.DroppedNewestBytes + counted.DroppedSlowConsumerBytes
        + counted.DroppedClosedBytes + counted.SupersededBytes + counted.FailedBytes + counted.PendingBytes;
}

using BatchKit.Transports;

namespace BatchKit.Tests.Schedules;

/// <summary>A batch as a send had it: read once, so that it can be compared when the send ends and when it is sent again.</summary>
internal sealed class SentBatch(MessageBatch batch, LedgerMessage[] messages)
{
    private readonly byte[] _payload = batch.Payload.ToArray();

    public OutputHandle Handle { get; } = batch.Handle;

    public FrameDestination Destination { get; } = FrameDestination.Of(batch.Handle, destinationNode: null);

    public ProducerId Producer { get; } = batch.Producer;

    public long Number { get; } = batch.Number;

    public LedgerMessage[] Messages { get; } = messages;

    public int Bytes => _payload.Length;

    public bool IsSettled { get; set; }

    public bool IsOvertaken { get; set; }

    public bool IsStillIn(MessageBatch memory) => memory.Number == Number && memory.Payload.Span.SequenceEqual(_payload);

    public bool IsSameAs(SentBatch other) => Handle == other.Handle && Messages.SequenceEqual(other.Messages);

    public override string ToString() => $"#{Number} h{Messages[0].Handle}[{string.Join(' ', Messages.Select(message => message.Id))}]";
}

using BatchKit.Transports;

namespace BatchKit.TransportSpecification.Support;

/// <summary>A batch as it arrived, copied.</summary>
/// <param name="Handle">Where it goes.</param>
/// <param name="Producer">Who numbered it.</param>
/// <param name="Number">Its number.</param>
/// <param name="Messages">Its messages, in order.</param>
public sealed record CollectedBatch(OutputHandle Handle, ProducerId Producer, long Number, IReadOnlyList<CollectedMessage> Messages);

namespace BatchKit.Transports;

/// <summary>How many batches, and how many messages in them.</summary>
internal readonly record struct BatchTally(int Batches, int Messages)
{
    public BatchTally With(MessageBatch batch) => new(Batches + 1, Messages + batch.Count);
}

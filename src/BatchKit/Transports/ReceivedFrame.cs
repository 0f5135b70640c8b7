namespace BatchKit.Transports;

/// <summary>The batches of one frame. Their payloads are the frame's own bytes, so they are valid as long as those are, and until this is disposed.</summary>
/// <remarks>Disposing gives its arrays back to the pool; the batches must not be used after that. One thread at a time.</remarks>
public sealed class ReceivedFrame : IDisposable
{
    private readonly FrameBatches _batches;

    internal ReceivedFrame(FrameBatches batches) => _batches = batches;

    /// <summary>Who numbered the batches.</summary>
    public ProducerId Producer => _batches.Producer;

    /// <summary>The batches, at least one, with rising numbers; empty once disposed.</summary>
    public ReadOnlyMemory<MessageBatch> Batches => _batches.Batches;

    /// <inheritdoc/>
    public void Dispose() => _batches.Release();
}

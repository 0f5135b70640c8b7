namespace BatchKit.Transports;

/// <summary>The batches of one frame. Their payloads are the frame's own bytes, so they are valid as long as those are, and until this is disposed.</summary>
/// <remarks>Disposing gives its arrays back to the pool; the batches must not be used after that. One thread at a time.</remarks>
public sealed class ReceivedFrame : IDisposable
{
    // What a receiver keeps from frame to frame: as many batches as a send has by default.
    private const int MaxKeptBatches = 4096;

    private readonly bool _isReused;
    private MessageBatch[] _batches = [];
    private int _count;

    internal ReceivedFrame(bool isReused) => _isReused = isReused;

    /// <summary>Who numbered the batches.</summary>
    public ProducerId Producer { get; private set; }

    /// <summary>The batches, at least one, with rising numbers; empty once disposed.</summary>
    public ReadOnlyMemory<MessageBatch> Batches => _batches.AsMemory(0, _count);

    /// <inheritdoc/>
    public void Dispose()
    {
        for (var index = 0; index < _count; index++)
            ((ReceivedBatch)_batches[index]).Release(keepSmall: _isReused && index < MaxKeptBatches);
        _count = 0;
        if (!_isReused || _batches.Length > MaxKeptBatches)
            _batches = [];
    }

    internal void Begin(ProducerId producer) => Producer = producer;

    internal ReceivedBatch Add()
    {
        if (_count == _batches.Length)
            Array.Resize(ref _batches, Math.Min(Math.Max(4, _count * 2), Array.MaxLength));
        var batch = (ReceivedBatch)(_batches[_count] ??= new ReceivedBatch());
        _count++;
        return batch;
    }
}

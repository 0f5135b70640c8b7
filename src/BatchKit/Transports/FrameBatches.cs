namespace BatchKit.Transports;

/// <summary>The batches that were read from a frame, with the arrays rented for them. When reused, it keeps what is small from frame to frame.</summary>
internal sealed class FrameBatches(bool isReused)
{
    // As many batches as a send has by default.
    private const int MaxKept = 4096;

    private MessageBatch[] _batches = [];
    private int _count;

    public ProducerId Producer { get; private set; }

    public ReadOnlyMemory<MessageBatch> Batches => _batches.AsMemory(0, _count);

    public void Begin(ProducerId producer) => Producer = producer;

    public ReceivedBatch Add()
    {
        if (_count == _batches.Length)
            Array.Resize(ref _batches, Math.Max(4, _count * 2));
        var batch = (ReceivedBatch)(_batches[_count] ??= new ReceivedBatch());
        _count++;
        return batch;
    }

    public void Release()
    {
        for (var index = 0; index < _count; index++)
            ((ReceivedBatch)_batches[index]).Release(keepSmall: isReused && _batches.Length <= MaxKept);
        _count = 0;
        if (!isReused || _batches.Length > MaxKept)
            _batches = [];
    }
}

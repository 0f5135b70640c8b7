using System.Buffers;

namespace BatchKit.Transports;

/// <summary>A batch that was read from a frame or made by hand. The payload is its maker's; what it rents, it gives back on release.</summary>
internal sealed class ReceivedBatch : MessageBatch
{
    // A small array costs more to rent than to keep: most batches of a crowded frame have a few messages.
    private const int MaxKeptEnds = 64;

    private int[] _rentedEnds = [];
    private MessageHeader?[] _rentedHeaders = [];

    public int[] RentEnds(int count)
    {
        if (_rentedEnds.Length >= count)
            return _rentedEnds;
        ReturnEnds();
        return _rentedEnds = ArrayPool<int>.Shared.Rent(count);
    }

    public MessageHeader?[] RentHeaders(int count)
    {
        _rentedHeaders = ArrayPool<MessageHeader?>.Shared.Rent(count);
        _rentedHeaders.AsSpan(0, count).Clear();
        return _rentedHeaders;
    }

    public void Release(bool keepSmall)
    {
        Unassign();
        if (!keepSmall || _rentedEnds.Length > MaxKeptEnds)
            ReturnEnds();
        if (_rentedHeaders.Length > 0)
            ArrayPool<MessageHeader?>.Shared.Return(_rentedHeaders, clearArray: true);
        _rentedHeaders = [];
    }

    private void ReturnEnds()
    {
        if (_rentedEnds.Length > 0)
            ArrayPool<int>.Shared.Return(_rentedEnds);
        _rentedEnds = [];
    }
}

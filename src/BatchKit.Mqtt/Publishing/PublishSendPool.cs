namespace BatchKit.Mqtt.Publishing;

/// <summary>Sends that may be used for other calls. Guarded by the queue's lock.</summary>
internal sealed class PublishSendPool : IDisposable
{
    // As many calls side by side as are worth keeping memory for.
    private const int MaxSpare = 64;

    private readonly Stack<BatchSend> _batchSends = [];
    private readonly Stack<MessageSend> _messageSends = [];
    private bool _isDisposed;

    public BatchSend? TakeBatchSend() => _batchSends.TryPop(out var send) ? send : null;

    public MessageSend? TakeMessageSend() => _messageSends.TryPop(out var send) ? send : null;

    public void Return(BatchSend send)
    {
        if (_batchSends.Count < MaxSpare)
            _batchSends.Push(send);
    }

    public void Return(MessageSend send)
    {
        if (_messageSends.Count < MaxSpare && !_isDisposed)
            _messageSends.Push(send);
        else
            send.Dispose();
    }

    public void Dispose()
    {
        _isDisposed = true;
        while (_messageSends.TryPop(out var send))
            send.Dispose();
    }
}

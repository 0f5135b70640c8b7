namespace BatchKit.Mqtt.Publishing;

/// <summary>The sends under way: all of them, and in order those that have something to send yet. Guarded by the queue's lock.</summary>
internal sealed class PublishSends
{
    private readonly HashSet<PublishSend> _all = [];
    private Queue<PublishSend> _unsent = new();

    /// <summary>The group whose next message is the next to be sent; null when there is none.</summary>
    public PublishGroup? Next
    {
        get
        {
            while (_unsent.TryPeek(out var send))
            {
                if (send.NextGroup is { } group)
                    return group;
                _unsent.Dequeue();
            }

            return null;
        }
    }

    /// <summary>Adds a send that has begun.</summary>
    public void Add(PublishSend send)
    {
        if (send.IsComplete)
            return;
        _all.Add(send);
        if (send.HasUnsent)
            _unsent.Enqueue(send);
    }

    /// <summary>Forgets a send whose caller has its result. It has nothing unsent, so it is in no queue any more.</summary>
    public void Remove(PublishSend send) => _all.Remove(send);

    public void GiveUp(PublishSend send, Exception cause)
    {
        if (send.IsComplete)
            return;
        _unsent = new Queue<PublishSend>(_unsent.Where(other => other != send));
        send.GiveUp(cause);
    }

    public void GiveUpAll(Exception cause)
    {
        _unsent.Clear();
        foreach (var send in _all)
        {
            if (!send.IsComplete)
                send.GiveUp(cause);
        }
    }
}

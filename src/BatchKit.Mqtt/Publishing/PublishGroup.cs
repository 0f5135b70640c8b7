using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Publishing;

/// <summary>Messages that belong together, and how far their publishing has come: a batch, or those of one call. Guarded by the queue's lock.</summary>
internal abstract class PublishGroup
{
    private int _count;
    private int _next;

    // Sent over a connection that was lost while the group had no owner to send them again for: they come before _next.
    private SortedSet<int>? _again;

    /// <summary>The send that waits for it; null while nobody does, and then its memory is not to be read.</summary>
    public PublishSend? Owner { get; private set; }

    public int Unsettled { get; private set; }

    public bool HasUnsent => _next < _count || _again is { Count: > 0 };

    /// <summary>The first message that is to be sent; there must be one.</summary>
    public int NextIndex => _again is { Count: > 0 } ? _again.Min : _next;

    public void Advance()
    {
        if (_again is { Count: > 0 })
            _again.Remove(_again.Min);
        else
            _next++;
    }

    /// <summary>What the message says.</summary>
    /// <returns>Why it can't be published; a plain success when it can.</returns>
    public abstract MqttPublishResult Read(int index, ref PublishFields fields);

    public void Settle(int index, MqttPublishResult result)
    {
        Unsettled--;
        Record(index, result);
        if (Unsettled == 0)
            Owner?.GroupSettled();
    }

    /// <summary>The message was under way on a connection that was lost.</summary>
    public void SendAgain(int index) => (_again ??= []).Add(index);

    public void Adopt(PublishSend owner) => Owner = owner;

    public virtual void Leave() => Owner = null;

    protected void Begin(PublishSend owner, int count)
    {
        Owner = owner;
        Unsettled = _count = count;
        _next = 0;
        _again?.Clear();
    }

    protected abstract void Record(int index, MqttPublishResult result);
}

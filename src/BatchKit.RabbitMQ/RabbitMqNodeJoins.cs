using RabbitMQ.Client;

namespace BatchKit.RabbitMQ;

/// <summary>The joins that were sent to one node, and that the node has not confirmed.</summary>
internal sealed class RabbitMqNodeJoins
{
    // Beyond this many, the node counts as one that may lack any group.
    private const int MaxKeys = 4096;

    // For each group's key the frame with the last join, and when its publish ended.
    private readonly Dictionary<string, (long Frame, long Settled)> _keys = new(StringComparer.Ordinal);
    private bool _mayLackAny;
    private int _framesUnderWay;
    private long _lastSettled;

    public long AskedTimestamp { get; set; }

    public bool MayLack(string key) => _mayLackAny || _keys.ContainsKey(key);

    public void Begin(List<string> keys, long frame)
    {
        _framesUnderWay++;
        foreach (var key in keys)
            _keys[key] = (frame, long.MaxValue);
        if (_keys.Count <= MaxKeys)
            return;
        _mayLackAny = true;
        _keys.Clear();
    }

    /// <returns>True when nothing is left to confirm.</returns>
    public bool Settle(List<string> keys, long frame, long moment)
    {
        _framesUnderWay = Math.Max(0, _framesUnderWay - 1);
        _lastSettled = moment;
        foreach (var key in keys)
        {
            if (_keys.TryGetValue(key, out var join) && join.Frame == frame)
                _keys[key] = (frame, moment);
        }

        return IsConfirmed;
    }

    /// <returns>True when nothing is left to confirm.</returns>
    public bool Confirm(long frame)
    {
        foreach (var (key, join) in _keys)
        {
            if (join.Frame == frame || join.Settled < frame)
                _keys.Remove(key);
        }

        _mayLackAny = _mayLackAny && (_framesUnderWay > 0 || _lastSettled > frame);
        return IsConfirmed;
    }

    private bool IsConfirmed => !_mayLackAny && _keys.Count == 0 && _framesUnderWay == 0;
}

/// <summary>How a frame is published.</summary>
/// <param name="Key">The routing key.</param>
/// <param name="Properties">The properties, with the keys beside it.</param>
/// <param name="IsMandatory">Whether the broker returns it when it reaches no queue.</param>
/// <param name="Node">The node that joins in it are for.</param>
/// <param name="Joins">The keys of the groups that it lets connections join; null for none.</param>
/// <param name="Moment">Where it stands among what happened, when it has joins.</param>
internal readonly record struct FrameAddress(string Key, BasicProperties Properties, bool IsMandatory, int Node = 0, List<string>? Joins = null, long Moment = 0);

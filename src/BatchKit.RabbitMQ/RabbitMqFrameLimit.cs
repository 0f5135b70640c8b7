using System.Globalization;

namespace BatchKit.RabbitMQ;

/// <summary>The largest frame that a sender publishes: <c>MaxFrameBytes</c>, or the broker's <c>max_message_size</c> where that is smaller. The protocol does not announce it; a refusal names it. Thread-safe.</summary>
internal sealed class RabbitMqFrameLimit(int maxFrameBytes)
{
    private const string LimitLabel = "max size ";

    private volatile int _brokerBytes = int.MaxValue;

    public int Bytes => Math.Min(maxFrameBytes, _brokerBytes);

    /// <summary>What limits frames, and what to do about it, as the end of a sentence.</summary>
    public string Remedy => _brokerBytes >= maxFrameBytes
        ? $"MaxFrameBytes ({maxFrameBytes}). Raise it, or write smaller messages."
        : $"the broker's max_message_size (max size {_brokerBytes}). Raise it there and restart this process, or write smaller messages.";

    /// <summary>Reads the limit from the broker's reason for closing a channel, if the reason has one.</summary>
    public void Learn(string? reason)
    {
        if (reason?.IndexOf(LimitLabel, StringComparison.Ordinal) is not (>= 0 and var start))
            return;
        var digits = reason.AsSpan(start + LimitLabel.Length);
        var end = digits.IndexOfAnyExceptInRange('0', '9');
        if (int.TryParse(end < 0 ? digits : digits[..end], NumberStyles.None, CultureInfo.InvariantCulture, out var bytes) && bytes > 0)
            _brokerBytes = bytes;
    }
}

namespace BatchKit;

/// <summary>Delivery of flushed messages was given up: refused for good, past the delivery limit, dropped, or the buffer stopped.</summary>
/// <param name="lostMessages">How many messages of the flush were not delivered.</param>
/// <param name="message">What happened, for a person.</param>
/// <param name="innerException">The transport's last error, where there is one.</param>
public sealed class OutputDeliveryException(long lostMessages, string message, Exception? innerException)
    : Exception(message, innerException)
{
    /// <summary>How many messages of the flush were not delivered.</summary>
    public long LostMessages { get; } = lostMessages;
}

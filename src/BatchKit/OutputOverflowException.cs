namespace BatchKit;

/// <summary>A write was refused because the buffer is full, or because the message is larger than a limit.</summary>
/// <remarks>The text names the setting, its value, and how many bytes the message or the buffer has.</remarks>
/// <param name="limitName">The setting that was reached.</param>
/// <param name="limitBytes">The setting's value in bytes, or what it stands for at this moment when it is null.</param>
/// <param name="message">A human-readable description.</param>
/// <param name="isPermanent">True when the message can never be accepted.</param>
public sealed class OutputOverflowException(string limitName, long limitBytes, string message, bool isPermanent = false)
    : InvalidOperationException(message)
{
    /// <summary>The setting that was reached, such as <c>MaxBufferedBytes</c>.</summary>
    public string LimitName { get; } = limitName;

    /// <summary>The setting's value in bytes, or what it stands for at this moment when it is null.</summary>
    public long LimitBytes { get; } = limitBytes;

    /// <summary>
    /// True when the message alone is larger than a limit, so that writing it again fails again; false when the buffer is full, so that
    /// the same write may succeed after some output has been sent.
    /// </summary>
    public bool IsPermanent { get; } = isPermanent;
}

/// <summary>Messages that a caller waited for were not delivered: a route refused them or gave them up, or the buffer dropped them or stopped.</summary>
/// <param name="lostMessages">How many messages were not delivered.</param>
/// <param name="message">A human-readable description.</param>
/// <param name="innerException">The transport's last error, if there is one.</param>
public sealed class OutputDeliveryException(long lostMessages, string message, Exception? innerException)
    : Exception(message, innerException)
{
    /// <summary>How many of the messages that the caller waited for were not delivered.</summary>
    public long LostMessages { get; } = lostMessages;
}

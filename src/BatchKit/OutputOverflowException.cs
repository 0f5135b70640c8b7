namespace BatchKit;

/// <summary>A write was refused because the buffer is full, or because the message is larger than a limit.</summary>
/// <remarks>The text names the setting, its value, and how many bytes the message or the buffer has.</remarks>
/// <param name="limitName">The setting that was reached.</param>
/// <param name="limitBytes">The setting's value in bytes.</param>
/// <param name="message">A human-readable description.</param>
/// <param name="isPermanent">True when the message can never be accepted.</param>
public sealed class OutputOverflowException(string limitName, long limitBytes, string message, bool isPermanent = false)
    : InvalidOperationException(message)
{
    /// <summary>The setting that was reached, such as <c>MaxBufferedBytes</c>.</summary>
    public string LimitName { get; } = limitName;

    /// <summary>The setting's value in bytes.</summary>
    public long LimitBytes { get; } = limitBytes;

    /// <summary>
    /// True when the message alone is larger than a limit, so that writing it again fails again; false when the buffer is full, so that
    /// the same write may succeed after some output has been sent.
    /// </summary>
    public bool IsPermanent { get; } = isPermanent;
}

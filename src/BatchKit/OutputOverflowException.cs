namespace BatchKit;

/// <summary>A write found no room, or a message is larger than a limit. The message names the limit.</summary>
/// <param name="limitName">The setting that was reached.</param>
/// <param name="limitBytes">Its value in bytes.</param>
/// <param name="message">What happened, for a person.</param>
public sealed class OutputOverflowException(string limitName, long limitBytes, string message) : InvalidOperationException(message)
{
    /// <summary>The setting that was reached, such as <c>MaxBufferedBytes</c>.</summary>
    public string LimitName { get; } = limitName;

    /// <summary>The setting's value in bytes.</summary>
    public long LimitBytes { get; } = limitBytes;
}

namespace BatchKit.Transports;

/// <summary>Bytes that are no frame, or one that passes a limit: it can never be read, so who received it refuses it and does not ask for it again.</summary>
/// <param name="message">What is wrong, for a person; never holds bytes of the frame.</param>
public sealed class FrameFormatException(string message) : Exception(message);

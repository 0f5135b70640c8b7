namespace BatchKit;

/// <summary>Messages of one handle that were lost, for <see cref="OutputBufferOptions.MessagesDropped"/>.</summary>
/// <param name="Handle">Their destination; <c>default</c> for the messages of further handles, when more than a thousand handles lost messages during one call.</param>
/// <param name="Reason">Why they were lost.</param>
/// <param name="Count">How many were lost since the previous call for the same handle and reason.</param>
public readonly record struct DroppedMessages(OutputHandle Handle, DropReason Reason, long Count);

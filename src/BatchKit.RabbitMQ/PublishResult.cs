namespace BatchKit.RabbitMQ;

/// <summary>What the broker said to one frame, and the error where it said nothing.</summary>
internal readonly record struct PublishResult(PublishOutcome Outcome, Exception? Error = null);

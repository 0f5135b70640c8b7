namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>A frame as it was on the wire.</summary>
internal sealed record CollectedFrame(string RoutingKey, bool IsPersistent, IReadOnlyList<string> Texts);

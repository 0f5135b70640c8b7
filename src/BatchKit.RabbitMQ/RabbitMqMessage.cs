namespace BatchKit.RabbitMQ;

/// <summary>A message of the application's own, for consumers that know nothing of BatchKit.</summary>
/// <param name="Exchange">The exchange; empty for the default one, whose routing keys are queue names. It exists: BatchKit declares nothing.</param>
/// <param name="RoutingKey">The routing key, at most 255 bytes of UTF-8.</param>
/// <param name="Body">The body. It may be the batch's payload itself: it is copied.</param>
public readonly record struct RabbitMqMessage(string Exchange, string RoutingKey, ReadOnlyMemory<byte> Body)
{
    /// <summary>The content type; none by default.</summary>
    public string? ContentType { get; init; }

    /// <summary>The type that its consumers expect; none by default.</summary>
    public string? Type { get; init; }
}

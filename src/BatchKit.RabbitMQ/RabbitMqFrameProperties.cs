namespace BatchKit.RabbitMQ;

/// <summary>The properties of a message whose body is a frame, for consumers, tools and people that have never heard of BatchKit. Constants: a frame has no text of its own. See docs/wire-format.md.</summary>
internal static class RabbitMqFrameProperties
{
    public const string ContentType = "application/vnd.batchkit.frame";

    public const string Type = "batchkit.frame";

    public const string AppId = "batchkit";
}

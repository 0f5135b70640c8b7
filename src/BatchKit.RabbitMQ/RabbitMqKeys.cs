using System.Globalization;

namespace BatchKit.RabbitMQ;

/// <summary>The routing keys of the direct exchange. <c>BatchKit.RabbitMQ</c> and <c>BatchKit.MassTransit</c> share them, so that nodes of both may have one prefix.</summary>
internal static class RabbitMqKeys
{
    /// <summary>The key of output for groups. A node whose groups are all bound gives up its binding to it.</summary>
    public const string AllNodes = "all";

    /// <summary>The key of output for groups whose sender does not know what is bound. Each node's queue stays bound to it.</summary>
    public const string EveryNode = "every";

    /// <summary>The key of output for one node.</summary>
    public static string Node(int node) => node.ToString(CultureInfo.InvariantCulture);
}

using System.Globalization;
using System.Text;
using BatchKit.Transports;
using StackExchange.Redis;

namespace BatchKit.Redis;

/// <summary>The names of the channels: five digits for a node, five times <c>x</c> for all nodes.</summary>
/// <remarks>The client keeps the order of what one subscription brings, and of nothing else. The names have the same length, so that one pattern matches a node's channel and that of all nodes, and no other that anyone publishes to.</remarks>
internal static class RedisChannels
{
    private const string All = "xxxxx";

    public static RedisChannel Of(string prefix, FrameDestination destination) =>
        RedisChannel.Literal($"{prefix}:{(destination.IsAll ? All : Digits(destination.Node))}");

    /// <summary>The channel that a health check publishes to. It has another length, so that no receiver gets it.</summary>
    public static RedisChannel ProbeOf(string prefix) => RedisChannel.Literal($"{prefix}:health");

    public static RedisChannel PatternOf(string prefix, int node)
    {
        var pattern = new StringBuilder($"{prefix}:");
        foreach (var digit in Digits(node))
            pattern.Append('[').Append(digit).Append(All[0]).Append(']');
        return RedisChannel.Pattern($"{pattern}");
    }

    private static string Digits(int node) => node.ToString("D5", CultureInfo.InvariantCulture);
}

using System.Globalization;
using BatchKit.Transports;

namespace BatchKit.Mqtt;

/// <summary>The topics that frames travel by in envelope mode.</summary>
internal static class EnvelopeTopics
{
    public static string All(string prefix) => $"{prefix}/all";

    public static string Node(string prefix, int node) => string.Create(CultureInfo.InvariantCulture, $"{prefix}/node/{node}");

    public static string Of(string prefix, FrameDestination destination) => destination.IsAll ? All(prefix) : Node(prefix, destination.Node);
}

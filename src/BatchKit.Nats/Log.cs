using Microsoft.Extensions.Logging;

namespace BatchKit.Nats;

/// <summary>The log messages of this package; ids start at 3000.</summary>
internal static partial class Log
{
    [LoggerMessage(3005, LogLevel.Warning, "{Target} is a server before version 2.10, which filters by one subject only: this node reads the frames of all nodes of {Prefix} and skips those of others. A newer server sends it its own only.")]
    public static partial void ReadsAllNodes(ILogger logger, string target, string prefix);
}

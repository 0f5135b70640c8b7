using System.Collections.Immutable;
using System.Diagnostics;

namespace BatchKit.Mqtt;

/// <summary>The names under which W3C trace context is a user property of a message, as W3C's draft for MQTT has them.</summary>
internal static class TraceContext
{
    public const string ParentName = "traceparent";
    public const string StateName = "tracestate";

    /// <summary>The length of a trace parent: version, trace id, span id and flags.</summary>
    public const int ParentCharacters = 55;

    /// <summary>Reads the trace that a message carries; the default when it carries none, or a malformed one. What the broker had kept was published long before.</summary>
    public static ActivityContext Read(MessageHeader? header)
    {
        if (header is null || header.IsRetained || header.Properties.IsDefaultOrEmpty)
            return default;
        return ActivityContext.TryParse(Find(header.Properties, ParentName), Find(header.Properties, StateName), isRemote: true, out var trace) ? trace : default;
    }

    private static string? Find(ImmutableArray<KeyValuePair<string, string>> properties, string name)
    {
        foreach (var property in properties)
        {
            if (property.Key == name)
                return property.Value;
        }

        return null;
    }
}

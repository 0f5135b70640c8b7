using System.Collections.Immutable;
using System.Diagnostics;

namespace BatchKit.Mqtt;

/// <summary>The names of the user properties that contain the W3C trace context of a message, as in W3C's draft "Trace Context: MQTT protocol".</summary>
internal static class TraceContext
{
    public const string ParentName = "traceparent";
    public const string StateName = "tracestate";

    /// <summary>The length of a trace parent: version, trace id, span id and flags.</summary>
    public const int ParentCharacters = 55;

    /// <summary>Reads the trace that a message carries; the default when it carries none or a malformed one. A retained message has none, because it may have been published long before.</summary>
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

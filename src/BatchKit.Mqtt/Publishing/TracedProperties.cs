using System.Collections.Immutable;
using System.Diagnostics;

namespace BatchKit.Mqtt.Publishing;

/// <summary>Adds the W3C trace context of a send to the user properties of its messages. One send at a time uses it.</summary>
internal sealed class TracedProperties
{
    // A longer trace state need not be passed on (W3C Trace Context, section 3.3.1.5).
    private const int MaxStateCharacters = 512;

    // Consecutive messages usually share one header.
    private ImmutableArray<KeyValuePair<string, string>> _lastGiven;
    private KeyValuePair<string, string>[] _lastTraced = [];
    private KeyValuePair<string, string>[] _trace = [];

    /// <summary>The maximum number of bytes that the trace adds to a packet: for each property, its identifier, its two lengths, its name and its value.</summary>
    public static int MaxBytes { get; } = 5 + TraceContext.ParentName.Length + TraceContext.ParentCharacters + 5 + TraceContext.StateName.Length + MaxStateCharacters;

    /// <summary>Reads the trace of the current span, if the span is recorded.</summary>
    public void Begin()
    {
        (_lastGiven, _lastTraced, _trace) = (default, [], []);
        if (Activity.Current is not { Recorded: true, IdFormat: ActivityIdFormat.W3C, Id: { } id } span)
            return;
        var parent = new KeyValuePair<string, string>(TraceContext.ParentName, id);
        // Only printable ASCII, because a broker closes the connection when it receives control characters.
        _trace = span.TraceStateString is { Length: > 0 and <= MaxStateCharacters } state && !state.AsSpan().ContainsAnyExceptInRange(' ', '~')
            ? [parent, new(TraceContext.StateName, state)]
            : [parent];
    }

    /// <summary>Adds the trace to a message's own properties, unless they have one.</summary>
    public ReadOnlySpan<KeyValuePair<string, string>> Add(ImmutableArray<KeyValuePair<string, string>> given)
    {
        if (given.IsDefaultOrEmpty)
            return _trace;
        if (_trace.Length == 0)
            return given.AsSpan();
        if (given != _lastGiven)
            (_lastGiven, _lastTraced) = (given, Join(given.AsSpan()));
        return _lastTraced;
    }

    /// <inheritdoc cref="Add(ImmutableArray{KeyValuePair{string, string}})"/>
    public ReadOnlySpan<KeyValuePair<string, string>> Add(ReadOnlySpan<KeyValuePair<string, string>> given) =>
        _trace.Length == 0 ? given : given.IsEmpty ? _trace : Join(given);

    private KeyValuePair<string, string>[] Join(ReadOnlySpan<KeyValuePair<string, string>> given)
    {
        foreach (var (name, _) in given)
        {
            if (name == TraceContext.ParentName)
                return given.ToArray();
        }

        return [.. given, .. _trace];
    }
}

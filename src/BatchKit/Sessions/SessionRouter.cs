using System.Collections.Immutable;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace BatchKit.Sessions;

/// <summary>Sends output for sessions to their route, for groups to that route too, and asks another router for everything else. <c>UseSessions</c> puts it before the buffer's router.</summary>
/// <remarks>Thread-safe.</remarks>
public sealed class SessionRouter : IOutputRouter
{
    private static readonly ImmutableArray<string> Sessions = [SessionTransport.RouteName];

    private readonly SessionTransport _sessions;
    private readonly IOutputRouter? _next;
    private readonly ImmutableArray<string> _only;
    private readonly ImmutableArray<string> _both;

    // The answers of the next router that were extended: few arrays, because it shares them.
    private readonly ConditionalWeakTable<string[], string[]> _extended = [];

    /// <summary>Creates a router before another one.</summary>
    /// <param name="sessions">The sessions.</param>
    /// <param name="next">Chooses the other routes.</param>
    public SessionRouter(SessionTransport sessions, IOutputRouter next)
    {
        ArgumentNullException.ThrowIfNull(sessions);
        ArgumentNullException.ThrowIfNull(next);
        (_sessions, _next) = (sessions, next);
    }

    /// <summary>Creates a router for a buffer that has one route besides that of the sessions.</summary>
    /// <param name="sessions">The sessions.</param>
    /// <param name="route">The other route's name.</param>
    public SessionRouter(SessionTransport sessions, string route)
    {
        ArgumentNullException.ThrowIfNull(sessions);
        ArgumentException.ThrowIfNullOrEmpty(route);
        _sessions = sessions;
        _only = [route];
        _both = [SessionTransport.RouteName, route];
    }

    /// <inheritdoc/>
    public ImmutableArray<string> GetRoutes(OutputHandle handle)
    {
        if (_sessions.Owns(handle))
            return Sessions;
        if (_next is null)
            return handle.IsConnection ? _only : _both;
        var routes = _next.GetRoutes(handle);
        return handle.IsConnection || routes.IsDefaultOrEmpty ? routes : Extend(routes);
    }

    private ImmutableArray<string> Extend(ImmutableArray<string> routes)
    {
        var names = ImmutableCollectionsMarshal.AsArray(routes)!;
        return ImmutableCollectionsMarshal.AsImmutableArray(_extended.GetValue(names, static names => [SessionTransport.RouteName, .. names]));
    }
}

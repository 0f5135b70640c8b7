using System.Collections.Immutable;

namespace BatchKit;

/// <summary>Chooses the ways out of this process that a handle's output takes.</summary>
/// <remarks>
/// Asked once for a handle while it is in use, so the answer for a handle must not change. Called from any thread. Return
/// a shared array: the call is on the path of a handle's first write.
/// </remarks>
public interface IOutputRouter
{
    /// <summary>The names of the routes, in no particular order; each must have been added to the buffer.</summary>
    /// <param name="handle">The destination.</param>
    ImmutableArray<string> GetRoutes(OutputHandle handle);
}

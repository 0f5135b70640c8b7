using BatchKit.SignalR.Records;
using Microsoft.AspNetCore.SignalR;

namespace BatchKit.SignalR;

/// <summary>The handles that a hub's output is written to, for scopes of their own: <c>output.BeginBufferingScope(HubHandles.Group&lt;ChatHub&gt;("room"))</c>.</summary>
/// <remarks>
/// An ambient scope needs none of them: it covers whatever its flow sends. A scope on a handle holds back all that any flow sends to that destination, and nothing else. A message that is sent to
/// several groups or users is written to the handle of each.
/// </remarks>
public static class HubHandles
{
    /// <summary>What <c>Clients.All</c> and <c>Clients.AllExcept</c> write to.</summary>
    /// <typeparam name="THub">The hub.</typeparam>
    public static OutputHandle All<THub>()
        where THub : Hub => HubAddress.Create(HubAddress.PrefixOf(typeof(THub)), HubTarget.All, string.Empty);

    /// <summary>What <c>Clients.Group</c> and <c>Clients.GroupExcept</c> write to.</summary>
    /// <typeparam name="THub">The hub.</typeparam>
    /// <param name="group">The group's name.</param>
    public static OutputHandle Group<THub>(string group)
        where THub : Hub
    {
        ArgumentNullException.ThrowIfNull(group);
        return HubAddress.Create(HubAddress.PrefixOf(typeof(THub)), HubTarget.Group, group);
    }

    /// <summary>What <c>Clients.User</c> writes to.</summary>
    /// <typeparam name="THub">The hub.</typeparam>
    /// <param name="user">The user's identifier.</param>
    public static OutputHandle User<THub>(string user)
        where THub : Hub
    {
        ArgumentNullException.ThrowIfNull(user);
        return HubAddress.Create(HubAddress.PrefixOf(typeof(THub)), HubTarget.User, user);
    }
}

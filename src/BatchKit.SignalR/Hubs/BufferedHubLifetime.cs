using System.Diagnostics.CodeAnalysis;
using BatchKit.SignalR.Clients;
using BatchKit.SignalR.Records;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Protocol;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Options;

namespace BatchKit.SignalR.Hubs;

/// <summary>Sends through the output buffer what a hub sends. SignalR finds it where it would find its own.</summary>
/// <remarks>
/// Each destination is a handle of the buffer, so that scopes, order and capacity are those of the buffer. A send that no scope holds back is awaited until the clients' queues and the backplane have it, as
/// with SignalR's own managers.
/// </remarks>
internal sealed class BufferedHubLifetime<THub> : HubLifetimeManager<THub>
    where THub : Hub
{
    private readonly HubMembers _members = new();
    private readonly SignalRTransport _transport;
    private readonly HubDelivery _delivery;
    private readonly HubOutput _output;
    private readonly HubCalls _calls;
    private readonly NodeNumber _node;
    private readonly long _marker;

    public BufferedHubLifetime(
        SignalRTransport transport, HubBuffer buffer, IHubProtocolResolver protocols, IOptions<HubOptions<THub>> options, TimeProvider? timeProvider = null)
    {
        _transport = transport;
        _node = buffer.Node;
        _marker = transport.DrawSequence();
        var prefix = HubAddress.PrefixOf(typeof(THub));
        var supported = options.Value.SupportedProtocols;
        _output = new HubOutput(
            buffer.Output, prefix, [.. protocols.AllProtocols.Where(protocol => supported?.Contains(protocol.Name, StringComparer.OrdinalIgnoreCase) ?? true)], transport.Limits);
        _calls = new HubCalls(_output, buffer.HasBackplane, transport.Options.ServerTimeout, timeProvider ?? TimeProvider.System);
        _delivery = new HubDelivery(_members, _calls, transport.Limits);
        transport.AddHub(typeof(THub), _delivery);
    }

    public override Task OnConnectedAsync(HubConnectionContext connection)
    {
        var client = new HubClient(connection, OutputHandle.Connection(_node.Value, _transport.DrawSequence()), _transport.Limits);
        _members.Add(client);
        _transport.AddClient(_delivery, client);
        return Task.CompletedTask;
    }

    public override Task OnDisconnectedAsync(HubConnectionContext connection)
    {
        if (_members.Remove(connection.ConnectionId) is not { } client)
            return Task.CompletedTask;
        _transport.RemoveClient(client);
        return _calls.EndAsync(client);
    }

    public override Task AddToGroupAsync(string connectionId, string groupName, CancellationToken cancellationToken = default) =>
        ChangeGroupAsync(connectionId, groupName, RecordKind.AddToGroup, cancellationToken);

    public override Task RemoveFromGroupAsync(string connectionId, string groupName, CancellationToken cancellationToken = default) =>
        ChangeGroupAsync(connectionId, groupName, RecordKind.RemoveFromGroup, cancellationToken);

    public override Task SendAllAsync(string methodName, object?[] args, CancellationToken cancellationToken = default) =>
        SendAsync(HubTarget.All, string.Empty, methodName, args, excluded: null, cancellationToken);

    public override Task SendAllExceptAsync(string methodName, object?[] args, IReadOnlyList<string> excludedConnectionIds, CancellationToken cancellationToken = default) =>
        SendAsync(HubTarget.All, string.Empty, methodName, args, excludedConnectionIds, cancellationToken);

    public override Task SendConnectionAsync(string connectionId, string methodName, object?[] args, CancellationToken cancellationToken = default) =>
        _output.SendAsync(HandleOfConnection(connectionId, out var client), client?.Protocol, methodName, args, excluded: null, cancellationToken);

    public override Task SendConnectionsAsync(IReadOnlyList<string> connectionIds, string methodName, object?[] args, CancellationToken cancellationToken = default) =>
        _output.SendAsync([.. connectionIds.Distinct(StringComparer.Ordinal).Select(connection => HandleOfConnection(connection, out _))], methodName, args, cancellationToken);

    public override Task SendGroupAsync(string groupName, string methodName, object?[] args, CancellationToken cancellationToken = default) =>
        SendAsync(HubTarget.Group, groupName, methodName, args, excluded: null, cancellationToken);

    public override Task SendGroupExceptAsync(
        string groupName, string methodName, object?[] args, IReadOnlyList<string> excludedConnectionIds, CancellationToken cancellationToken = default) =>
        SendAsync(HubTarget.Group, groupName, methodName, args, excludedConnectionIds, cancellationToken);

    public override Task SendGroupsAsync(IReadOnlyList<string> groupNames, string methodName, object?[] args, CancellationToken cancellationToken = default) =>
        _output.SendAsync(HandlesOf(HubTarget.Group, groupNames), methodName, args, cancellationToken);

    public override Task SendUserAsync(string userId, string methodName, object?[] args, CancellationToken cancellationToken = default) =>
        SendAsync(HubTarget.User, userId, methodName, args, excluded: null, cancellationToken);

    public override Task SendUsersAsync(IReadOnlyList<string> userIds, string methodName, object?[] args, CancellationToken cancellationToken = default) =>
        _output.SendAsync(HandlesOf(HubTarget.User, userIds.Distinct(StringComparer.Ordinal)), methodName, args, cancellationToken);

    public override Task<T> InvokeConnectionAsync<T>(string connectionId, string methodName, object?[] args, CancellationToken cancellationToken)
    {
        var handle = HandleOfConnection(connectionId, out var client);
        return _calls.InvokeAsync<T>(client, connectionId, handle, methodName, args, cancellationToken);
    }

    public override Task SetConnectionResultAsync(string connectionId, CompletionMessage result) => _calls.SetResultAsync(connectionId, result);

    public override bool TryGetReturnType(string invocationId, [NotNullWhen(true)] out Type? type) => _calls.TryGetReturnType(invocationId, out type);

    private Task SendAsync(
        HubTarget target, string key, string method, object?[] arguments, IReadOnlyList<string>? excluded, CancellationToken cancellationToken) =>
        _output.SendAsync(_output.HandleOf(target, key), protocol: null, method, arguments, excluded, cancellationToken);

    // Output for a connection on this server does not go over the backplane.
    private OutputHandle HandleOfConnection(string connectionId, out HubClient? client) =>
        (client = _members.Find(connectionId))?.Handle ?? _output.HandleOf(HubTarget.Connection, connectionId);

    // SignalR's backplane leaves empty names of a list out too. A copy, because the caller may change the list before all is written.
    private OutputHandle[] HandlesOf(HubTarget target, IEnumerable<string> names) => [.. names.Where(static name => !string.IsNullOrEmpty(name)).Select(name => _output.HandleOf(target, name))];

    private async Task ChangeGroupAsync(string connectionId, string group, RecordKind change, CancellationToken cancellationToken)
    {
        ArgumentNullException.ThrowIfNull(connectionId);
        ArgumentNullException.ThrowIfNull(group);

        // What was written before the change is for the members of that time.
        var output = _output.HandleOf(HubTarget.Group, group);
        if (_members.Find(connectionId) is not { } client)
        {
            await _output.SealAsync(output).ConfigureAwait(false);
            await _calls.ChangeGroupAsync(_output.HandleOf(HubTarget.Connection, connectionId), connectionId, group, change, cancellationToken).ConfigureAwait(false);
            return;
        }

        await _output.ReleaseAsync(output, OutputHandle.Connection(_node.Value, _marker), cancellationToken).ConfigureAwait(false);
        _delivery.Change(client, group, change);
    }
}

/// <summary>The buffer that hubs write to.</summary>
internal sealed record HubBuffer(OutputBuffer Output, NodeNumber Node, bool HasBackplane);

using System.Collections.Concurrent;
using System.Diagnostics.CodeAnalysis;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Protocol;

namespace BatchKit.SignalR.Hubs;

/// <summary>The calls of this server whose clients have not answered yet.</summary>
internal sealed class ClientResults
{
    private readonly ConcurrentDictionary<string, PendingResult> _pending = new(StringComparer.Ordinal);

    /// <summary>Adds a call. Dispose it when it has ended, however that was.</summary>
    public PendingResult<T> Add<T>(string id, string connectionId)
    {
        var result = new PendingResult<T>(connectionId);
        _pending[id] = result;
        return result;
    }

    public void Remove(string id) => _pending.TryRemove(id, out _);

    public void Acknowledge(string id)
    {
        if (_pending.TryGetValue(id, out var result))
            result.Acknowledge();
    }

    public bool TryGetType(string id, [NotNullWhen(true)] out Type? type)
    {
        type = _pending.TryGetValue(id, out var result) ? result.Type : null;
        return type is not null;
    }

    /// <summary>False when another connection was asked.</summary>
    public bool IsFrom(string connectionId, CompletionMessage message) =>
        message.InvocationId is not { } id || !_pending.TryGetValue(id, out var result) || result.ConnectionId == connectionId;

    /// <returns>False when no call of this server waits for it.</returns>
    /// <exception cref="InvalidOperationException">Another connection was asked.</exception>
    public bool TryComplete(string connectionId, CompletionMessage message)
    {
        if (message.InvocationId is not { } id || !_pending.TryGetValue(id, out var result))
            return false;
        if (result.ConnectionId != connectionId)
            throw new InvalidOperationException($"The connection '{connectionId}' answered invocation '{id}', which another connection was asked for.");
        result.Complete(message);
        return true;
    }
}

/// <summary>One call that waits for a client's result.</summary>
internal abstract class PendingResult(string connectionId, Type type)
{
    private readonly TaskCompletionSource _acknowledged = new(TaskCreationOptions.RunContinuationsAsynchronously);

    public string ConnectionId { get; } = connectionId;

    public Type Type { get; } = type;

    /// <summary>Completes when the connection's server has the call.</summary>
    public Task Acknowledged => _acknowledged.Task;

    public void Acknowledge() => _acknowledged.TrySetResult();

    public virtual void Complete(CompletionMessage message) => Acknowledge();
}

/// <inheritdoc/>
internal sealed class PendingResult<T>(string connectionId) : PendingResult(connectionId, typeof(T))
{
    private readonly TaskCompletionSource<T> _result = new(TaskCreationOptions.RunContinuationsAsynchronously);

    public Task<T> Result => _result.Task;

    public override void Complete(CompletionMessage message)
    {
        base.Complete(message);
        if (message.HasResult)
            _result.TrySetResult((T)message.Result!);
        else
            _result.TrySetException(new HubException(message.Error ?? "The client returned no result."));
    }
}

using System.Buffers;
using System.Collections.Concurrent;
using System.Diagnostics.CodeAnalysis;
using BatchKit.SignalR.Clients;
using BatchKit.SignalR.Records;
using BatchKit.Transports;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Protocol;

namespace BatchKit.SignalR.Hubs;

/// <summary>Calls that want an answer: a client's result, or a change of a group for a connection on another server.</summary>
internal sealed class HubCalls(HubOutput output, bool hasBackplane, TimeSpan serverTimeout, TimeProvider timeProvider)
{
    // A server that gives a call up tells no other, and a client may answer none.
    private const int MaxAskedOfClient = 1000;

    private readonly ClientResults _results = new();

    // What other servers asked the clients of this one.
    private readonly ConcurrentDictionary<string, AskedCall> _asked = new(StringComparer.Ordinal);
    private long _lastCall;

    /// <summary>Invokes a client method, and returns its result. The client is null when the connection is not on this server.</summary>
    /// <exception cref="IOException">The connection does not exist, or ended before it answered.</exception>
    /// <exception cref="HubException">The client answered with an error, or the call was cancelled while it was under way.</exception>
    /// <exception cref="OperationCanceledException">The call was cancelled before it began.</exception>
    public async Task<T> InvokeAsync<T>(
        HubClient? client, string connectionId, OutputHandle handle, string method, object?[] arguments, CancellationToken cancellationToken)
    {
        ThrowIfNowhere(client, connectionId);
        cancellationToken.ThrowIfCancellationRequested();
        var id = CreateId();
        var result = _results.Add<T>(id, connectionId);
        var gone = client?.Connection.ConnectionAborted ?? CancellationToken.None;
        using var ended = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken, gone);
        try
        {
            var invocation = new InvocationMessage(id, method, arguments);
            await output.CallAsync(handle, RecordKind.Invoke, id, record => output.Encode(record, invocation, client?.Protocol), ended.Token).ConfigureAwait(false);
            if (client is null && !await IsAcknowledgedAsync(result, ended.Token).ConfigureAwait(false))
                throw new IOException($"Connection '{connectionId}' does not exist.");
            return await result.Result.WaitAsync(ended.Token).ConfigureAwait(false);
        }
        catch (OperationCanceledException exception) when (gone.IsCancellationRequested)
        {
            throw new IOException($"Connection '{connectionId}' disconnected.", exception);
        }
        catch (OperationCanceledException exception)
        {
            throw new HubException("Invocation canceled by the server.", exception);
        }
        finally
        {
            _results.Remove(id);
        }
    }

    /// <summary>Changes a group of a connection on another server, and completes when that server has done it, or none has the connection.</summary>
    public async Task ChangeGroupAsync(OutputHandle handle, string connectionId, string group, RecordKind change, CancellationToken cancellationToken)
    {
        if (!hasBackplane)
            return;
        var id = CreateId();
        var done = _results.Add<object?>(id, connectionId);
        try
        {
            await output.CallAsync(handle, change, id, record => record.Text(group), cancellationToken).ConfigureAwait(false);
            _ = await IsAcknowledgedAsync(done, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            _results.Remove(id);
        }
    }

    public bool TryGetReturnType(string id, [NotNullWhen(true)] out Type? type)
    {
        if (_results.TryGetType(id, out type))
            return true;
        // The result stays as the client encoded it: only the server that asked knows its type.
        type = _asked.ContainsKey(id) ? typeof(RawResult) : null;
        return type is not null;
    }

    /// <summary>Takes a client's result, and passes it on to the server that asked.</summary>
    public Task SetResultAsync(string connectionId, CompletionMessage result)
    {
        if (_results.TryComplete(connectionId, result) || result.InvocationId is not { } id)
            return Task.CompletedTask;
        if (!_asked.TryGetValue(id, out var asked) || asked.Client.Connection.ConnectionId != connectionId || !TryTake(id, out _))
            return Task.CompletedTask;
        return AnswerAsync(asked.Server, asked.Client, result);
    }

    /// <summary>Remembers what another server asks a client, and tells it that the client is here.</summary>
    public void Begin(HubClient client, string server, string id)
    {
        if (server == output.Server)
            return;
        if (Add(new AskedCall(server, client, new LinkedListNode<string>(id))) is { } oldest && TryTake(oldest, out var unanswered))
            Post(unanswered.Server, client, client.Connection.Protocol, CompletionMessage.WithError(oldest, $"Connection '{client.Connection.ConnectionId}' has left {MaxAskedOfClient} later calls unanswered."));
        if (IsConnected(client))
            Acknowledge(server, id);
        else if (TryTake(id, out _))
            Post(server, client, client.Connection.Protocol, CreateEndOf(client, id));
    }

    /// <summary>Answers for a client in whose protocol the server that asks it has not encoded the call.</summary>
    /// <remarks>Without a protocol that both servers have, that server gets no acknowledgement either, and stops waiting for it.</remarks>
    /// <param name="client">The client, which gets nothing.</param>
    /// <param name="server">The server that asks.</param>
    /// <param name="id">The call.</param>
    /// <param name="messages">What the call says in each protocol of that server.</param>
    public void Refuse(HubClient client, string server, string id, RecordReader messages)
    {
        foreach (var known in output.Protocols)
        {
            if (!messages.HasMessage(known))
                continue;
            var error = $"Connection '{client.Connection.ConnectionId}' speaks the protocol '{client.Connection.Protocol.Name}', in which the server that asked it has not encoded the call.";
            Post(server, client, known.Protocol, CompletionMessage.WithError(id, error));
            return;
        }
    }

    public void Acknowledge(string server, string id) => output.Post(HandleOf(server), RecordKind.Acknowledge, record => record.Text(id));

    /// <summary>Tells the servers that asked a client that it has gone.</summary>
    public Task EndAsync(HubClient client)
    {
        string[] unanswered;
        lock (client.Asked)
            unanswered = [.. client.Asked];
        // An answer that fails is no reason to leave out the others.
        return Task.WhenAll(unanswered.Select(id => TryTake(id, out var call) ? AnswerAsync(call.Server, client, CreateEndOf(client, id)) : Task.CompletedTask));
    }

    /// <summary>Receives answers for a server.</summary>
    /// <returns>False when one is malformed.</returns>
    public bool TryReceive(MessageBatch batch, string server)
    {
        if (server != output.Server)
            return true;
        foreach (var message in batch)
        {
            var record = new RecordReader(message.Payload.Span);
            switch (record.Kind)
            {
                case RecordKind.Acknowledge when record.Text() is var id && !record.IsMalformed:
                    _results.Acknowledge(id);
                    break;
                case RecordKind.Result when TryReadResult(record, out var connectionId, out var result):
                    if (!_results.IsFrom(connectionId, result))
                        return false;
                    _results.TryComplete(connectionId, result);
                    break;
                default:
                    return false;
            }
        }

        return true;
    }

    /// <returns>The client's oldest call, when it has too many; otherwise null.</returns>
    private string? Add(AskedCall call)
    {
        var asked = call.Client.Asked;
        lock (asked)
        {
            // A transport may deliver a call twice.
            if (_asked.TryAdd(call.Place.Value, call))
                asked.AddLast(call.Place);
            return asked.Count > MaxAskedOfClient ? asked.First!.Value : null;
        }
    }

    private bool TryTake(string id, [NotNullWhen(true)] out AskedCall? call)
    {
        if (!_asked.TryRemove(id, out call))
            return false;
        lock (call.Client.Asked)
            call.Client.Asked.Remove(call.Place);
        return true;
    }

    private bool TryReadResult(RecordReader record, out string connectionId, [NotNullWhen(true)] out CompletionMessage? result)
    {
        connectionId = record.Text();
        var name = record.Text();
        var bytes = new ReadOnlySequence<byte>(record.Field().ToArray());
        result = null;
        if (record.IsMalformed || output.Protocols.FirstOrDefault(known => known.Protocol.Name == name) is not { Protocol: var protocol })
            return false;
        try
        {
            if (protocol.TryParseMessage(ref bytes, new ResultBinder(_results), out var message))
                result = message as CompletionMessage;
        }
        catch (InvalidDataException)
        {
            return false;
        }

        return result is not null;
    }

    private async Task AnswerAsync(string server, HubClient client, CompletionMessage result)
    {
        try
        {
            await WriteResultAsync(server, client, result).ConfigureAwait(false);
        }
        catch (OutputOverflowException tooLarge) when (tooLarge.IsPermanent && result.HasResult)
        {
            // The server that asked would wait until the client disconnects, and then get no answer either.
            var error = $"The result is larger than {tooLarge.LimitName} ({tooLarge.LimitBytes}) of the server that has the connection.";
            await WriteResultAsync(server, client, CompletionMessage.WithError(result.InvocationId!, error)).ConfigureAwait(false);
        }
    }

    private Task WriteResultAsync(string server, HubClient client, CompletionMessage result)
    {
        var protocol = client.Connection.Protocol;
        return output.AnswerAsync(HandleOf(server), RecordKind.Result, record => record.Text(client.Connection.ConnectionId).Text(protocol.Name).Message(result, protocol));
    }

    private void Post(string server, HubClient client, IHubProtocol protocol, CompletionMessage result) =>
        output.Post(HandleOf(server), RecordKind.Result, record => record.Text(client.Connection.ConnectionId).Text(protocol.Name).Message(result, protocol));

    private static CompletionMessage CreateEndOf(HubClient client, string id) => CompletionMessage.WithError(id, $"Connection '{client.Connection.ConnectionId}' disconnected.");

    // A client that disconnects is marked before its calls are ended, so a call that came too late for that sees the mark.
    private static bool IsConnected(HubClient client)
    {
        lock (client.Groups)
            return client.IsConnected;
    }

    private OutputHandle HandleOf(string server) => output.HandleOf(HubTarget.Server, server);

    private async Task<bool> IsAcknowledgedAsync(PendingResult result, CancellationToken cancellationToken)
    {
        try
        {
            await result.Acknowledged.WaitAsync(serverTimeout, timeProvider, cancellationToken).ConfigureAwait(false);
            return true;
        }
        catch (TimeoutException)
        {
            return false;
        }
    }

    private void ThrowIfNowhere(HubClient? client, string connectionId)
    {
        if (client is null && !hasBackplane)
            throw new IOException($"Connection '{connectionId}' does not exist.");
    }

    private string CreateId() => $"{output.Server}-{Interlocked.Increment(ref _lastCall)}";

    /// <summary>What another server asked a client, and its place among that client's calls.</summary>
    private sealed record AskedCall(string Server, HubClient Client, LinkedListNode<string> Place);

    /// <summary>Knows the types of the results that this server waits for.</summary>
    private sealed class ResultBinder(ClientResults results) : IInvocationBinder
    {
        // A result that no one waits for any more is not decoded.
        public Type GetReturnType(string invocationId) => results.TryGetType(invocationId, out var type) ? type : typeof(RawResult);

        public IReadOnlyList<Type> GetParameterTypes(string methodName) => throw new InvalidDataException("A result was expected.");

        public Type GetStreamItemType(string streamId) => throw new InvalidDataException("A result was expected.");
    }
}

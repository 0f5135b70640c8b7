using BatchKit.SignalR.Clients;
using BatchKit.SignalR.Records;
using BatchKit.Transports;
using Microsoft.AspNetCore.SignalR.Protocol;

namespace BatchKit.SignalR.Hubs;

/// <summary>Writes one hub's records to the buffer.</summary>
internal sealed class HubOutput(OutputBuffer buffer, string prefix, IEnumerable<IHubProtocol> protocols, ClientLimits limits)
{
    // Memory of a thread that once wrote a large record is not kept.
    private const int MaxKeptBytes = 64 * 1024;

    private static readonly TimeSpan AnswerPause = TimeSpan.FromMilliseconds(100);

    // A record is encoded on its thread, and the buffer copies it before the write returns. Null while it is in use: an argument that sends a message while it is encoded gets memory of its own.
    [ThreadStatic]
    private static RecordWriter? _kept;

    private readonly Action<string, Exception> _leftOut = limits.ReportUnencoded;

    // A loop mostly sends to one destination; its handle's name would be built and hashed for each message.
    private KnownHandle? _last;

    /// <summary>This server among those of the hub.</summary>
    public string Server { get; } = Guid.NewGuid().ToString("N");

    public NamedProtocol[] Protocols { get; } = [.. protocols.Select(static protocol => new NamedProtocol(protocol))];

    public OutputHandle HandleOf(HubTarget target, string key)
    {
        ArgumentNullException.ThrowIfNull(key);
        if (_last is { } last && last.Target == target && last.Key == key)
            return last.Handle;
        var handle = HubAddress.Create(prefix, target, key);
        _last = new KnownHandle(target, key, handle);
        return handle;
    }

    /// <summary>Writes a message for a handle's clients, and completes when it is on its way, or held by a scope.</summary>
    /// <param name="handle">The handle.</param>
    /// <param name="protocol">The protocol of its only client; null for any.</param>
    /// <param name="method">The client's method.</param>
    /// <param name="arguments">What it gets.</param>
    /// <param name="excluded">The connections that get nothing; null for none.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    public async Task SendAsync(OutputHandle handle, NamedProtocol? protocol, string method, object?[] arguments, IReadOnlyList<string>? excluded, CancellationToken cancellationToken)
    {
        var record = Encode(protocol, method, arguments, excluded);
        var settled = await WriteAsync(handle, record.Written, cancellationToken).ConfigureAwait(false);
        Keep(record);
        await settled.ConfigureAwait(false);
    }

    /// <summary>The same for several handles; the message is encoded once.</summary>
    public async Task SendAsync(OutputHandle[] handles, string method, object?[] arguments, CancellationToken cancellationToken)
    {
        var record = TakeBytes(Encode(protocol: null, method, arguments, excluded: null));
        var settled = new List<Task>();
        foreach (var handle in handles)
            settled.Add((await WriteAsync(handle, record, cancellationToken).ConfigureAwait(false)).AsTask());
        await Task.WhenAll(settled).ConfigureAwait(false);
    }

    /// <summary>Sends a call for one connection. Nothing of what its flow or others wrote to the connection before stays held, nor does the call.</summary>
    public async Task CallAsync(OutputHandle handle, RecordKind kind, string id, Func<RecordWriter, RecordWriter> encode, CancellationToken cancellationToken)
    {
        using var scope = buffer.BeginBufferingScope(handle);
        await buffer.WriteAsync(handle, TakeBytes(encode(Begin(kind).Text(Server).Text(id))), cancellationToken: cancellationToken).ConfigureAwait(false);
        await SealAsync(handle).ConfigureAwait(false);
        try
        {
            await buffer.WhenSettledAsync(handle, cancellationToken).ConfigureAwait(false);
        }
        catch (OutputDeliveryException)
        {
            // It may be about what others wrote. The end of the scope tells what became of the call.
        }

        await scope.DisposeAsync().AsTask().WaitAsync(cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Sends an answer. It is called inside a transport's send, which must not wait for capacity: the thread pool does, and not as a part of the send.</summary>
    public void Post(OutputHandle handle, RecordKind kind, Func<RecordWriter, RecordWriter> encode)
    {
        var record = TakeBytes(encode(Begin(kind)));
        _ = CallerContext.RunWithout(() => PostAsync(handle, record));
    }

    /// <summary>Sends an answer, and completes when the buffer has it.</summary>
    public Task AnswerAsync(OutputHandle handle, RecordKind kind, Func<RecordWriter, RecordWriter> encode) => AnswerAsync(handle, TakeBytes(encode(Begin(kind))));

    /// <summary>Sends out what scopes hold for a handle, and what else its flow's ambient scope holds, and waits for nothing.</summary>
    public async ValueTask SealAsync(OutputHandle handle)
    {
        if (buffer.GetPendingBytes(handle) == 0)
            return;
        // What the flow wrote to other handles before is for the same clients, and must not arrive behind it.
        buffer.FlushAmbientScope();
        // A flush would wait for the backplane. The token ends the wait at once, but not the sending.
        await buffer.FlushAsync(handle, new CancellationToken(canceled: true)).AsTask().ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    /// <summary>Sends out what scopes hold for a handle, and completes when this server's clients have it, so that a change of its members comes behind it. The backplane may have it later.</summary>
    /// <param name="handle">The handle.</param>
    /// <param name="marker">A handle of this server without a client.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    public async ValueTask ReleaseAsync(OutputHandle handle, OutputHandle marker, CancellationToken cancellationToken)
    {
        if (buffer.GetPendingBytes(handle) == 0)
            return;
        await SealAsync(handle).ConfigureAwait(false);
        try
        {
            // The local route has one partition: when it has sent this, it has sent what was queued before.
            await buffer.WriteAsync(marker, ReadOnlyMemory<byte>.Empty, cancellationToken: cancellationToken).ConfigureAwait(false);
            await buffer.FlushAsync(marker, cancellationToken).ConfigureAwait(false);
        }
        catch (Exception failure) when (failure is OutputDeliveryException or OutputOverflowException or ObjectDisposedException)
        {
            // The buffer drops output now, or has stopped. The change does not depend on it.
        }
    }

    /// <summary>Encodes a message in the protocol of its only client, or in each that can.</summary>
    public RecordWriter Encode(RecordWriter record, HubMessage message, NamedProtocol? protocol) =>
        record.Message(message, protocol is null ? Protocols : [protocol], _leftOut);

    private RecordWriter Encode(NamedProtocol? protocol, string method, object?[] arguments, IReadOnlyList<string>? excluded) =>
        Encode(Begin(RecordKind.Send).Texts(excluded), new InvocationMessage(method, arguments), protocol);

    /// <summary>Writes in a scope of its own, whose end tells what was lost of it.</summary>
    /// <returns>When the message is accepted, what completes when it is settled.</returns>
    private async ValueTask<ValueTask> WriteAsync(OutputHandle handle, ReadOnlyMemory<byte> record, CancellationToken cancellationToken)
    {
        // The end of a scope sends on this thread when nothing is under way. Without one, a loop of sends that are awaited would wait for the thread pool each time.
        var scope = buffer.BeginBufferingScope(handle);
        try
        {
            await buffer.WriteAsync(handle, record, cancellationToken: cancellationToken).ConfigureAwait(false);
        }
        catch
        {
            scope.Dispose();
            throw;
        }

        var ended = scope.DisposeAsync();
        // While others have scopes on the handle, the end of this one waits for nothing.
        return ended.IsCompletedSuccessfully ? buffer.WhenSettledAsync(handle, cancellationToken) : new ValueTask(ended.AsTask().WaitAsync(cancellationToken));
    }

    private async Task PostAsync(OutputHandle handle, byte[] record)
    {
        try
        {
            await AnswerAsync(handle, record).ConfigureAwait(false);
        }
        catch (Exception failure) when (failure is OutputOverflowException or ObjectDisposedException)
        {
            // The buffer never takes it, or has stopped, which ends a wait too.
        }
    }

    // The server that asked may wait for it without a limit. So it waits for capacity with every policy.
    private async Task AnswerAsync(OutputHandle handle, byte[] record)
    {
        while (true)
        {
            try
            {
                await buffer.WriteAsync(handle, record).ConfigureAwait(false);
                return;
            }
            catch (OutputOverflowException full) when (!full.IsPermanent)
            {
                await Task.Delay(AnswerPause, limits.TimeProvider).ConfigureAwait(false);
            }
        }
    }

    private static RecordWriter Begin(RecordKind kind)
    {
        var record = _kept ?? new RecordWriter();
        _kept = null;
        return record.Begin(kind);
    }

    private static byte[] TakeBytes(RecordWriter record)
    {
        var bytes = record.Written.ToArray();
        Keep(record);
        return bytes;
    }

    private static void Keep(RecordWriter record)
    {
        if (record.Capacity <= MaxKeptBytes)
            _kept = record;
    }

    private sealed record KnownHandle(HubTarget Target, string Key, OutputHandle Handle);
}

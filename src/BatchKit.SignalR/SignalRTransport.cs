using System.Collections.Concurrent;
using System.Diagnostics.Metrics;
using BatchKit.Diagnostics;
using BatchKit.SignalR.Clients;
using BatchKit.SignalR.Records;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.SignalR;

/// <summary>Writes what hubs send to the SignalR clients of this server: one write for each client and send.</summary>
/// <remarks>It is the buffer's local route, and what a backplane's receiver passes its batches to. Thread-safe.</remarks>
public sealed class SignalRTransport : IBatchTransport, IDisposable
{
    private readonly ConcurrentDictionary<string, IHubReceiver> _hubs = new(StringComparer.Ordinal);
    private readonly ConcurrentDictionary<string, Type> _hubTypes = new(StringComparer.Ordinal);
    private readonly ConcurrentDictionary<OutputHandle, (IHubReceiver Hub, HubClient[] Clients)> _clients = new();
    private readonly ConcurrentDictionary<string, IHubReceiver>.AlternateLookup<ReadOnlySpan<char>> _hubsByPrefix;
    private readonly SignalRMetrics _metrics;
    private long _lastClient;

    /// <summary>Creates a transport.</summary>
    /// <param name="options">The settings, read once; the defaults when null.</param>
    /// <param name="timeProvider">The clock; the system's when null.</param>
    /// <param name="logger">Gets warnings of clients that do not read.</param>
    /// <param name="meterFactory">Creates the meter; its own when null.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range; the message names it.</exception>
    public SignalRTransport(SignalROptions? options = null, TimeProvider? timeProvider = null, ILogger<SignalRTransport>? logger = null, IMeterFactory? meterFactory = null)
    {
        options ??= new SignalROptions();
        OptionsRules.ThrowIfInvalid(new SignalROptionsValidator(), options);
        Options = options;
        var guarded = GuardedLogger.Of(logger);
        Limits = new ClientLimits(options, timeProvider ?? TimeProvider.System, guarded);
        _hubsByPrefix = _hubs.GetAlternateLookup<ReadOnlySpan<char>>();
        _metrics = new SignalRMetrics(this, meterFactory, guarded.Faults);
    }

    /// <inheritdoc/>
    public bool SendsWithoutBlocking => true;

    internal SignalROptions Options { get; }

    internal ClientLimits Limits { get; }

    internal int Connections => _clients.Count;

    /// <summary>Writes the batches' messages to their clients, and completes when no client that still reads is far behind.</summary>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="BatchSendException">A batch is not a hub's, or could not be delivered. The others were sent.</exception>
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        var send = new HubSend(Limits);
        BatchOutcome[]? outcomes = null;
        Exception? error = null;
        for (var index = 0; index < batches.Length; index++)
        {
            if (TryDeliver(batches.Span[index], send, ref error))
                continue;
            if (outcomes is null)
                Array.Fill(outcomes = new BatchOutcome[batches.Length], BatchOutcome.Acknowledged);
            outcomes[index] = BatchOutcome.Refused;
        }

        var writing = send.WriteAsync(cancellationToken);
        return outcomes is null ? writing : FailAsync(writing, outcomes, error);
    }

    /// <summary>Stops measuring. The connections belong to SignalR, which closes them.</summary>
    public void Dispose() => _metrics.Dispose();

    /// <summary>Adds a hub, by the name with which its handles begin.</summary>
    /// <exception cref="InvalidOperationException">Another hub has the same name.</exception>
    internal void AddHub(Type hub, IHubReceiver receiver)
    {
        var known = _hubTypes.GetOrAdd(HubAddress.PrefixOf(hub), hub);
        if (known != hub)
            throw new InvalidOperationException($"The hubs '{known.AssemblyQualifiedName}' and '{hub.AssemblyQualifiedName}' have the same full name, by which output finds its hub. Rename one of them.");
        _hubs[HubAddress.PrefixOf(hub)] = receiver;
    }

    /// <summary>Draws the sequence of a new client's handle.</summary>
    internal long DrawSequence() => Interlocked.Increment(ref _lastClient);

    internal void AddClient(IHubReceiver hub, HubClient client) => _clients[client.Handle] = (hub, [client]);

    internal void RemoveClient(HubClient client) => _clients.TryRemove(client.Handle, out _);

    // A protocol of the application, or a faulty server, may make a hub throw. Its batch fails alone: what the others have for the clients is queued, and would come twice with another attempt.
    private bool TryDeliver(MessageBatch batch, HubSend send, ref Exception? error)
    {
        try
        {
            return TryDeliver(batch, send);
        }
        catch (Exception exception)
        {
            error ??= exception;
            return false;
        }
    }

    // A client that has gone meanwhile gets nothing, and that is no failure: its server could not know.
    private bool TryDeliver(MessageBatch batch, HubSend send)
    {
        if (batch.Handle.IsConnection)
            return !_clients.TryGetValue(batch.Handle, out var known) || known.Hub.TryDeliver(batch, known.Clients, send);
        if (batch.Handle.Name is not { } name || !HubAddress.TryParse(name, out var prefix, out var target, out var key))
            return false;
        return !_hubsByPrefix.TryGetValue(prefix, out var hub) || hub.TryDeliver(batch, target, key, send);
    }

    private static async ValueTask FailAsync(ValueTask writing, BatchOutcome[] outcomes, Exception? error)
    {
        await writing.ConfigureAwait(false);
        var reason = error is null ? "The output is not a hub's. Write it to a hub's clients, or to a buffer with another route." : $"A hub could not deliver output. {FailureText.MessageOf(error)}";
        throw new BatchSendException([.. outcomes], reason, error);
    }
}

/// <summary>A hub as its transport sees it.</summary>
internal interface IHubReceiver
{
    /// <returns>False when the batch is malformed; what follows the malformed message was not done.</returns>
    bool TryDeliver(MessageBatch batch, HubTarget target, string key, HubSend send);

    /// <inheritdoc cref="TryDeliver(MessageBatch, HubTarget, string, HubSend)"/>
    bool TryDeliver(MessageBatch batch, HubClient[] clients, HubSend send);
}

/// <summary>All instruments of one transport, read from its counters on collection. Hubs, groups and connections are never tags.</summary>
internal sealed class SignalRMetrics : IDisposable
{
    private readonly ObserverFaults _faults;
    private readonly Meter? _meter;

    public SignalRMetrics(SignalRTransport transport, IMeterFactory? meterFactory, ObserverFaults faults)
    {
        _faults = faults;
        _meter = faults.CreateMeter(meterFactory, [], meter => AddInstruments(meter, transport));
    }

    public void Dispose() => _faults.Dispose(_meter);

    private static void AddInstruments(Meter meter, SignalRTransport transport)
    {
        meter.CreateObservableCounter("batchkit.signalr.writes", () => transport.Limits.Writes, "{write}", "Writes to clients; each has all that waited for the client, up to 64 KiB.");
        meter.CreateObservableCounter("batchkit.signalr.messages", () => transport.Limits.Messages, "{message}", "Messages in those writes.");
        meter.CreateObservableCounter("batchkit.signalr.bytes", () => transport.Limits.Bytes, "By", "Bytes in those writes.");
        meter.CreateObservableCounter("batchkit.signalr.disconnects", () => transport.Limits.CutClients, "{connection}", "Connections that were aborted because their clients did not read.");
        meter.CreateObservableUpDownCounter("batchkit.signalr.connections", () => transport.Connections, "{connection}", "Connections of hubs on this server.");
    }
}

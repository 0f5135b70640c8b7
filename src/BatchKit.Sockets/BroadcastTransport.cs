using System.Collections.Immutable;
using System.Diagnostics.CodeAnalysis;
using System.Diagnostics.Metrics;
using System.IO.Pipelines;
using System.Net.WebSockets;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Receiving;
using BatchKit.Broadcast.Tcp;
using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Microsoft.Extensions.ObjectPool;

namespace BatchKit.Broadcast;

/// <summary>The last hop: delivers batches to this node's connections and to the members of groups. Each connection gets one write per send.</summary>
/// <remarks>
/// <para>A send completes when the socket or queue of every connection has its part. A batch for a connection that is gone is refused; a batch for a group without members is acknowledged.
/// Control messages (<see cref="ControlMessage"/>) in a connection's output take effect in order, before any later batch of the same send.</para>
/// <para>What goes wrong with one connection never affects another: that connection is disconnected, and its output counts as failed.</para>
/// <para>All members are thread-safe. Sends may overlap; order holds within each.</para>
/// </remarks>
public sealed class BroadcastTransport : IBatchTransport, IGroupMembership, IBlockingDisposable
{
    private readonly ObjectPool<FanoutWork> _works;
    private readonly ConnectionSweep _sweep;
    private readonly Lazy<BroadcastMetrics> _metrics;
    private volatile bool _isDisposed;

    /// <summary>Creates a transport without connections; a listener, a mapped WebSocket endpoint or <see cref="Attach(Stream, AttachOptions)"/> adds them.</summary>
    /// <param name="options">The settings; the defaults when null.</param>
    /// <param name="node">This process's node number, from 0 to <see cref="OutputHandle.MaxNode"/>. It is part of every handle.</param>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="node"/> is outside its range.</exception>
    /// <param name="timeProvider">The clock of all time limits; the system clock when null.</param>
    /// <param name="logger">Logs what goes wrong with connections; nothing is logged when null.</param>
    /// <param name="meterFactory">Creates the meter <c>BatchKit</c>; the transport creates its own when null.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range; the message names it.</exception>
    public BroadcastTransport(BroadcastOptions? options = null, int node = 0, TimeProvider? timeProvider = null, ILogger<BroadcastTransport>? logger = null,
        IMeterFactory? meterFactory = null)
        : this(options, new NodeNumber(node), timeProvider, logger, meterFactory) => StartMetrics();

    internal BroadcastTransport(BroadcastOptions? options, NodeNumber node, TimeProvider? timeProvider, ILogger<BroadcastTransport>? logger, IMeterFactory? meterFactory)
    {
        Options = options ?? new BroadcastOptions();
        OptionsRules.ThrowIfInvalid(new BroadcastOptionsValidator(), Options);
        Limits = SendQueueLimits.From(Options);
        Clock = new RunningClock(timeProvider ?? TimeProvider.System, ConnectionSweep.PeriodFor(Options));
        LogThrottle = new LogThrottle(Clock);
        Logger = Guard(logger ?? NullLogger<BroadcastTransport>.Instance);
        _works = new DefaultObjectPool<FanoutWork>(new FanoutWorkPolicy(Limits, Counters));
        Connections = new ConnectionTable(Options, node);
        Groups = new GroupTable(LoggerFaults);
        _metrics = new Lazy<BroadcastMetrics>(() => new BroadcastMetrics(this, node.Value, meterFactory));
        _sweep = new ConnectionSweep(Connections, Options, Clock, LogThrottle, Logger, LoggerFaults);
    }

    /// <inheritdoc/>
    /// <remarks>True: a send to few connections takes microseconds, and a send to many continues on the thread pool.</remarks>
    public bool SendsWithoutBlocking => true;

    /// <inheritdoc/>
    /// <remarks>Half of <see cref="BroadcastOptions.MaxQueuedBytes"/> less 168 bytes, because telnet may double every byte.</remarks>
    public int MaxMessageBytes => Limits.MaxMessageBytes;

    /// <summary>Creates the instruments. Their tag is the node's number, which the lease may change until the host has started.</summary>
    internal void StartMetrics() => _ = _metrics.Value;

    /// <summary>Counts what its loggers threw.</summary>
    internal ObserverFaults LoggerFaults { get; } = new();

    /// <summary>Limits what clients can add to the log.</summary>
    internal LogThrottle LogThrottle { get; }

    internal ILogger Logger { get; }

    internal BroadcastOptions Options { get; }

    internal RunningClock Clock { get; }

    internal SendQueueLimits Limits { get; }

    /// <summary>How many file handles the process may have open; null where that is not known.</summary>
    internal int? MostHandles { get; set; } = HandleLimit.OfProcess;

    internal DeliveryCounters Counters { get; } = new();

    internal ConnectionTable Connections { get; }

    /// <summary>Clients that did not keep up when the sweep last looked.</summary>
    internal int SlowClients => _sweep.SlowClients;

    internal GroupTable Groups { get; }

    /// <summary>The connections that other code accepted.</summary>
    internal RunningTasks Attached { get; } = new();

    /// <inheritdoc/>
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        cancellationToken.ThrowIfCancellationRequested();
        var work = _works.Get();
        var refusal = Stage(batches.Span, work.Staged);
        if (work.Staged.Count > FanoutWork.MaxInlineConnections)
            return FinishAsync(work, work.RunAsync(), refusal);
        work.RunInline();
        Return(work);
        return refusal is null ? default : ValueTask.FromException(refusal);
    }

    /// <summary>The members of a group on this node.</summary>
    /// <param name="group">The group's name.</param>
    /// <returns>A snapshot of the members; empty when there is no such group.</returns>
    public IReadOnlyList<ClientConnection> GetMembers(string group) => Groups.GetMembers(group);

    /// <inheritdoc/>
    public bool HasMembers(string group) => Groups.Contains(group);

    /// <inheritdoc/>
    public IReadOnlyCollection<string> GetGroups() => Groups.Names;

    /// <inheritdoc/>
    public IDisposable Watch(Action<string> changed) => Groups.Watch(changed);

    /// <summary>The groups that a connection is in.</summary>
    /// <returns>Their names; empty when it is in none, or gone.</returns>
    public IReadOnlyList<string> GetGroups(OutputHandle connection) => Connections.TryGet(connection, out var found) ? found.Memberships.Names : [];

    /// <summary>Finds a connection of this node.</summary>
    /// <returns>False when it is gone, or belongs to another node.</returns>
    public bool TryGetConnection(OutputHandle handle, [MaybeNullWhen(false)] out ClientConnection connection) => Connections.TryGet(handle, out connection);

    /// <summary>Waits until each client of a destination that reads has half of its queue free: back pressure for who writes much. Flush what you have written before, so that it is in the queues.</summary>
    /// <remarks>A client that has taken nothing for a second is not waited for, and none for longer than <see cref="BroadcastOptions.SlowConsumerTimeout"/> from the call: <see cref="BroadcastOptions.SlowConsumer"/> and that time limit decide about it.</remarks>
    /// <param name="destination">A connection, or a group; one of another node has nothing to wait for.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <exception cref="OperationCanceledException">The token was cancelled.</exception>
    public Task WaitForReadersAsync(OutputHandle destination, CancellationToken cancellationToken = default) =>
        ReaderWait.RunAsync(destination.Name is { } group ? GetMembers(group) : TryGetConnection(destination, out var client) ? [client] : [], Options.SlowConsumerTimeout, Clock, cancellationToken);

    /// <summary>Reads the counters. It visits every connection: use it for a page or a test, not on a hot path.</summary>
    public BroadcastStatistics GetStatistics() => BroadcastStatistics.Read(Counters, Connections, Groups.Count) with { SlowClients = SlowClients };

    /// <summary>Takes over the output of a connection that other code accepted.</summary>
    /// <remarks>The other code keeps reading the connection, and closes it; see <see cref="AttachedConnection"/>.</remarks>
    /// <param name="stream">What is written to. Its writes must observe their token, and wait without blocking their caller.</param>
    /// <param name="options">What is known about the connection; nothing when null.</param>
    /// <returns>The connection. Dispose it before you close the stream.</returns>
    /// <exception cref="InvalidOperationException">A connection limit is reached, or the transport has stopped.</exception>
    /// <exception cref="ObjectDisposedException">The transport is disposed.</exception>
    public AttachedConnection Attach(Stream stream, AttachOptions? options = null)
    {
        ArgumentNullException.ThrowIfNull(stream);
        return Attach(AttachedWire.To(stream), options, ClientProtocol.Tcp, CancellationToken.None);
    }

    /// <param name="output">What is written to. The transport flushes it and never completes it.</param>
    /// <param name="options">What is known about the connection; nothing when null.</param>
    /// <inheritdoc cref="Attach(Stream, AttachOptions)"/>
    public AttachedConnection Attach(PipeWriter output, AttachOptions? options = null)
    {
        ArgumentNullException.ThrowIfNull(output);
        return Attach(AttachedWire.To(output), options, ClientProtocol.Tcp, CancellationToken.None);
    }

    /// <param name="pipe">Its output is written to, flushed and never completed. Its input is left to the other code.</param>
    /// <param name="options">What is known about the connection; nothing when null.</param>
    /// <inheritdoc cref="Attach(Stream, AttachOptions)"/>
    public AttachedConnection Attach(IDuplexPipe pipe, AttachOptions? options = null)
    {
        ArgumentNullException.ThrowIfNull(pipe);
        return Attach(pipe.Output, options);
    }

    /// <param name="socket">Each message is sent as one WebSocket message, and a close sends the close frame. The other code must keep receiving, which also answers the client's pings.</param>
    /// <param name="options">What is known about the connection; nothing when null.</param>
    /// <inheritdoc cref="Attach(Stream, AttachOptions)"/>
    public AttachedConnection Attach(WebSocket socket, AttachOptions? options = null)
    {
        ArgumentNullException.ThrowIfNull(socket);
        return Attach(AttachedWire.To(socket), options, ClientProtocol.WebSocket, CancellationToken.None);
    }

    /// <param name="write">
    /// Writes bytes: whole messages, one after another, of 64 KiB at most; a larger message comes in several calls. One call at a time. It must observe its token, and must not use the bytes after its task
    /// has ended. An exception ends the connection.
    /// </param>
    /// <param name="options">What is known about the connection; nothing when null.</param>
    /// <inheritdoc cref="Attach(Stream, AttachOptions)"/>
    public AttachedConnection Attach(Func<ReadOnlyMemory<byte>, CancellationToken, ValueTask> write, AttachOptions? options = null)
    {
        ArgumentNullException.ThrowIfNull(write);
        return Attach(new AttachedWire(write), options, ClientProtocol.Tcp, CancellationToken.None);
    }

    /// <summary>Stops accepting connections: further clients are turned away, WebSocket requests with status 503, and the health check fails. Existing connections stay until <see cref="DrainAsync"/>.</summary>
    /// <remarks>Call it on a node that is to be replaced, before you ask its clients to connect elsewhere. Listeners go on listening; <see cref="BroadcastListener.StopAsync"/> ends that. It may be called again.</remarks>
    public void StopAccepting() => Connections.Close();

    /// <summary>Stops accepting connections, gives every client <see cref="BroadcastOptions.DrainTimeout"/> to read what is queued and the goodbye, and closes it.</summary>
    /// <remarks>It may be called again.</remarks>
    /// <param name="cancellationToken">Ends the wait: clients that have not read everything by then are disconnected.</param>
    public Task DrainAsync(CancellationToken cancellationToken)
    {
        Connections.Close();
        return new ConnectionDrain(this, Clock, Logger).RunAsync(cancellationToken);
    }

    /// <summary>Disconnects all remaining connections at once; drain first. It waits for writes to attached connections, for at most <see cref="BroadcastOptions.CloseTimeout"/>.</summary>
    public async ValueTask DisposeAsync()
    {
        if (_isDisposed)
            return;
        _isDisposed = true;
        Connections.Close();
        foreach (var connection in Connections.All)
            connection.Abort(DisconnectReason.Stopped);
        await _sweep.DisposeAsync().ConfigureAwait(false);
        if (_metrics.IsValueCreated)
            _metrics.Value.Dispose();
        try
        {
            await Attached.WhenNone().WaitAsync(Options.CloseTimeout, Clock).ConfigureAwait(false);
        }
        catch (TimeoutException)
        {
            // A write that does not observe its token. Its connection's owner still has it.
        }
    }

    /// <summary>The limits of a new connection's input; null for none.</summary>
    internal InputLimits? InputLimitsFor(bool isText) => isText ? Options.TextInputLimits : Options.BinaryInputLimits;

    /// <summary>Guards a logger of this transport, its listeners and its endpoints against what it throws.</summary>
    internal GuardedLogger Guard(ILogger logger) => new(logger, LoggerFaults);

    /// <summary>Attaches a wire that belongs to other code.</summary>
    /// <param name="wire">The wire.</param>
    /// <param name="options">What is known about the connection; nothing when null.</param>
    /// <param name="protocol">How messages are encoded.</param>
    /// <param name="closed">Cancelled when the client is gone, if that is known.</param>
    internal AttachedConnection Attach(AttachedWire wire, AttachOptions? options, ClientProtocol protocol, CancellationToken closed)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        options ??= new AttachOptions();
        var place = new ClientPlace(Connections);
        if (!place.TryTake(options.RemoteEndPoint?.Address))
            throw new InvalidOperationException(Connections.IsClosed
                ? "The transport has stopped and takes no more connections. Attach connections only while the host runs."
                : $"A connection limit is reached: {nameof(BroadcastOptions.MaxConnections)} ({Options.MaxConnections}) in total, or {nameof(BroadcastOptions.MaxConnectionsPerAddress)} ({Options.PlacesPerAddress}) for the address. Raise it, or turn the client away.");
        var origin = new ConnectionOrigin(options.RemoteEndPoint, options.IsSecure, options.User);
        var format = protocol != ClientProtocol.WebSocket ? WireFormat.Raw : options.SendsBinary ? WireFormat.WebSocketBinary : WireFormat.WebSocketText;
        var output = new SendQueue(wire, Limits, Counters, Clock);
        var connection = new ClientConnection(Connections.NextHandle(), protocol, origin, output, format, Clock) { IsAttached = true };
        connection.MarkAuthenticated();
        return AttachedConnection.Start(this, connection, wire, place, closed);
    }

    private async ValueTask FinishAsync(FanoutWork work, Task running, BatchSendException? refusal)
    {
        await running.ConfigureAwait(false);
        Return(work);
        if (refusal is not null)
            throw refusal;
    }

    // Not after a failure: work that failed half-way is not reused.
    private void Return(FanoutWork work)
    {
        work.Staged.Clear();
        _works.Return(work);
    }

    /// <returns>The error when a batch is refused; otherwise null.</returns>
    private BatchSendException? Stage(ReadOnlySpan<MessageBatch> batches, StagedSend staged)
    {
        if (batches.Length == 1 && !batches[0].Handle.IsConnection)
        {
            staged.StageOnly(batches[0], Groups.GetMembers(batches[0].Handle.Name!));
            return null;
        }

        BatchOutcome[]? outcomes = null;
        for (var index = 0; index < batches.Length; index++)
        {
            var batch = batches[index];
            if (!batch.Handle.IsConnection)
                staged.Stage(batch, Groups.GetMembers(batch.Handle.Name!));
            else if (!TryStage(batch, staged))
                Refuse(ref outcomes, batches.Length, index);
        }

        return outcomes is null ? null : Refusal(outcomes, batches[Array.IndexOf(outcomes, BatchOutcome.Refused)].Handle);
    }

    private bool TryStage(MessageBatch batch, StagedSend staged)
    {
        if (!Connections.TryGet(batch.Handle, out var connection) || staged.IsClosed(connection))
            return false;
        var headers = batch.Headers;
        for (var index = 0; index < headers.Length; index++)
        {
            if (headers[index]?.Kind == MessageKind.Control && ApplyControl(connection, batch[index].Payload.Span))
            {
                staged.Stage(batch, connection, index, closes: true);
                return true;
            }
        }

        staged.Stage(batch, connection, batch.Count, closes: false);
        return true;
    }

    /// <returns>True when the connection must be closed after the messages before it.</returns>
    private bool ApplyControl(ClientConnection connection, ReadOnlySpan<byte> payload)
    {
        if (!ControlMessage.TryRead(payload, out var control))
            Connections.CountUnknownControl();
        else if (control.Operation == ControlOperation.JoinGroup)
            Join(connection, control.Group);
        else if (control.Operation == ControlOperation.LeaveGroup)
            Groups.Leave(connection, control.Group);
        else
            Groups.LeaveAll(connection);
        return control.Operation == ControlOperation.Close;
    }

    private void Join(ClientConnection connection, string group)
    {
        connection.MarkAuthenticated();
        Groups.Join(connection, group);
    }

    private static void Refuse(ref BatchOutcome[]? outcomes, int count, int index)
    {
        if (outcomes is null)
        {
            outcomes = new BatchOutcome[count];
            Array.Fill(outcomes, BatchOutcome.Acknowledged);
        }

        outcomes[index] = BatchOutcome.Refused;
    }

    private static BatchSendException Refusal(BatchOutcome[] outcomes, OutputHandle first) =>
        new([.. outcomes], $"Connection {first} is gone, the first of {outcomes.Count(static one => one == BatchOutcome.Refused)} in this send.") { DestinationsAreGone = true };
}

using System.Net;
using System.Security.Claims;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Receiving;
using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.WebSockets;
using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast;

/// <summary>One client of this node. Write to its <see cref="Handle"/> through an <see cref="IOutputBuffer"/>.</summary>
/// <remarks>All members are thread-safe.</remarks>
public sealed class ClientConnection
{
    private const int NoCompression = 0;
    private const int HoldsCompression = 1;
    private const int EndedCompression = 2;

    private ConnectionActivity _activity;
    private LazyCompletion<DisconnectReason> _closing;
    private LazyCompletion<bool> _aborting;
    private volatile byte _format;
    private volatile bool _isAuthenticated;
    private InputPace? _pace;
    private int _compression;

    internal ClientConnection(OutputHandle handle, ClientProtocol protocol, ConnectionOrigin origin, SendQueue output, WireFormat format, TimeProvider timeProvider)
    {
        Handle = handle;
        Protocol = protocol;
        Origin = origin;
        Output = output;
        _activity = new ConnectionActivity(timeProvider);
        Memberships = new Memberships(this);
        _format = format.Index;
        _isAuthenticated = origin.User?.Identity?.IsAuthenticated is true;
    }

    /// <summary>The handle for its output; never reused for another connection.</summary>
    public OutputHandle Handle { get; }

    /// <summary>Its protocol.</summary>
    public ClientProtocol Protocol { get; }

    /// <summary>The client's address, taken from a trusted proxy if there is one; null when it has none, as on a Unix socket.</summary>
    public IPEndPoint? RemoteEndPoint => Origin.RemoteEndPoint;

    /// <summary>True when the client uses TLS, to this server or to a trusted proxy that reports it.</summary>
    public bool IsSecure => Origin.IsSecure;

    /// <summary>The user of the WebSocket's request, or that of <see cref="AttachOptions.User"/>; null for other connections.</summary>
    public ClaimsPrincipal? User => Origin.User ?? (Origin.IsRequest ? new ClaimsPrincipal(new ClaimsIdentity()) : null);

    /// <summary>What a telnet client reported about itself; null for other protocols.</summary>
    public TelnetTerminal? Terminal { get; internal init; }

    /// <summary>True once the client is authenticated: <see cref="BroadcastOptions.MaxUnauthenticatedBytes"/> and <see cref="BroadcastOptions.AuthenticationTimeout"/> then no longer apply.</summary>
    public bool IsAuthenticated => _isAuthenticated;

    /// <summary>True while it does not keep up: output has waited for a quarter of a second of which it took nothing, or more than half of its queue is in use. It is looked at every second, or twice a second with <see cref="BroadcastOptions.SlowClientChanged"/>.</summary>
    public bool IsSlow { get; internal set; }

    /// <summary>True when its handler asks for authentication. Written by its reader, read by the sweep.</summary>
    internal bool RequiresAuthentication { get; set; }

    internal ConnectionOrigin Origin { get; }

    internal SendQueue Output { get; }

    internal ref ConnectionActivity Activity => ref _activity;

    internal Memberships Memberships { get; }

    /// <summary>Delays its input when it has limits; null when it has none.</summary>
    /// <remarks>The connection's reader creates it on first use, because most clients send little or nothing.</remarks>
    internal InputPace? Pace => _pace ??= InputLimits is { } limits ? new InputPace(limits, _activity.TimeProvider) : null;

    /// <summary>The pace, if it was created; null for a client that has sent too little to be delayed.</summary>
    internal InputPace? StartedPace => _pace;

    /// <summary>The limits of its input; null for none.</summary>
    internal InputLimits? InputLimits { get; init; }

    /// <summary>Repeats a telnet client's prompt after other output; null when that is off.</summary>
    internal TelnetPrompts? Prompts { get; init; }

    /// <summary>The encoding of its messages. It changes while a telnet client negotiates.</summary>
    internal WireFormat Format
    {
        get => WireFormat.FromIndex(_format);
        set => _format = value.Index;
    }

    /// <summary>True when other code accepted it and reads its input.</summary>
    internal bool IsAttached { get; init; }

    /// <summary>True once it was aborted.</summary>
    internal bool IsAborted => _aborting.IsSet;

    /// <summary>Completes when it is aborted.</summary>
    internal Task Aborting => _aborting.Task;

    /// <summary>True once it was closed or aborted.</summary>
    internal bool IsClosing => _closing.IsSet;

    /// <summary>Completes with the reason of its first close or abort.</summary>
    internal Task<DisconnectReason> Closing => _closing.Task;

    /// <summary>The object that accepted the connection, and that ends it when it stops; null for a WebSocket.</summary>
    internal object? Listener { get; set; }

    /// <summary>Marks the client as authenticated.</summary>
    public void MarkAuthenticated() => _isAuthenticated = true;

    /// <summary>Closes it after the output that is already in its send queue. Output that still waits in an <see cref="IOutputBuffer"/> is dropped and counted; to close after that output too, write <see cref="ControlMessage.Close"/>.</summary>
    public void Close() => Close(DisconnectReason.Closed);

    /// <summary>Ends it at once; output that waits for it is dropped and counted.</summary>
    public void Abort() => Abort(DisconnectReason.Aborted);

    /// <summary>A human-readable form: the protocol and the handle.</summary>
    public override string ToString() => $"{Protocol} {Handle}";

    /// <summary>True while it holds one of the places for compression.</summary>
    internal bool HoldsCompressionPlace => Volatile.Read(ref _compression) == HoldsCompression;

    /// <summary>Notes that it holds one of the places for compression, until it ends.</summary>
    /// <returns>False when it has ended.</returns>
    internal bool TryHoldCompression() => Interlocked.CompareExchange(ref _compression, HoldsCompression, NoCompression) == NoCompression;

    /// <summary>Gives back its place for compression.</summary>
    /// <returns>True when it held one.</returns>
    internal bool EndCompression() => Interlocked.Exchange(ref _compression, EndedCompression) == HoldsCompression;

    internal void Close(DisconnectReason reason)
    {
        if (_closing.TrySet(reason))
            Output.Complete(Protocol == ClientProtocol.WebSocket ? WebSocketClosings.FrameFor(reason) : []);
    }

    internal void Abort(DisconnectReason reason)
    {
        _aborting.TrySet(true);
        _closing.TrySet(reason);
        Output.Abort(reason switch
        {
            DisconnectReason.SlowConsumer => DeliveryOutcome.DroppedSlowConsumer,
            DisconnectReason.ConnectionLost => DeliveryOutcome.Failed,
            _ => DeliveryOutcome.DroppedClosed,
        });
    }

    /// <summary>Closes it because a call of its handler failed. A call that was cancelled at the connection's end did not fail.</summary>
    internal void CloseAfter(Exception failure, ILogger logger, LogThrottle throttle, CancellationToken ending)
    {
        if (failure is OperationCanceledException && ending.IsCancellationRequested)
            return;
        Log.HandlerFailed(logger, throttle, failure, this);
        Close(DisconnectReason.HandlerFailed);
    }

    /// <summary>Sends messages to its wire or its queue.</summary>
    internal void Send(in OutputRun run, ref DeliveryTally tally)
    {
        if (Output.Send(run, ref tally) is { } reason)
            Abort(reason);
    }

    /// <summary>Sends a protocol's own bytes after what was sent.</summary>
    internal void SendControl(ReadOnlySpan<byte> bytes, Func<IWire, IWire>? nextWire = null)
    {
        if (Output.SendControl(bytes, nextWire) is { } reason)
            Abort(reason);
    }

    /// <summary>Sends a pong after what was sent, in place of the one that waits.</summary>
    internal void SendPong(ReadOnlySpan<byte> frame)
    {
        if (Output.SendPong(frame) is { } reason)
            Abort(reason);
    }
}

/// <summary>The protocol of a client.</summary>
public enum ClientProtocol
{
    /// <summary>Bytes over TCP, or over anything else that was attached (<see cref="AttachedConnection"/>). An <see cref="IRecordCutter"/> splits the input into records; output is sent unchanged.</summary>
    Tcp = 0,

    /// <summary>Telnet (RFC 854).</summary>
    Telnet = 1,

    /// <summary>WebSocket (RFC 6455). Each message is one WebSocket message.</summary>
    WebSocket = 2,
}

/// <summary>Why a connection ended.</summary>
public enum DisconnectReason
{
    /// <summary>The client closed it.</summary>
    ClientClosed = 0,

    /// <summary>The connection broke.</summary>
    ConnectionLost = 1,

    /// <summary>The server closed it after its output, by a control message or <see cref="ClientConnection.Close()"/>.</summary>
    Closed = 2,

    /// <summary>The server closed it at once, by <see cref="ClientConnection.Abort()"/>.</summary>
    Aborted = 3,

    /// <summary>The client did not read, and a limit was reached: <see cref="BroadcastOptions.MaxQueuedBytes"/>, <see cref="BroadcastOptions.MaxQueuedMessages"/> or <see cref="BroadcastOptions.SlowConsumerTimeout"/>.</summary>
    SlowConsumer = 4,

    /// <summary>The client sent no record for <see cref="BroadcastOptions.IdleTimeout"/>.</summary>
    Idle = 5,

    /// <summary>The client broke its protocol, or sent a record above <see cref="BroadcastOptions.MaxRecordBytes"/>.</summary>
    ProtocolError = 6,

    /// <summary>The client was not authenticated within <see cref="BroadcastOptions.AuthenticationTimeout"/>, or sent more than <see cref="BroadcastOptions.MaxUnauthenticatedBytes"/> before.</summary>
    NotAuthenticated = 7,

    /// <summary>The server stopped.</summary>
    Stopped = 8,

    /// <summary>The handler threw an exception, which was logged.</summary>
    HandlerFailed = 9,
}

/// <summary>Where a connection comes from: its address, whether it uses TLS, and its user.</summary>
/// <param name="RemoteEndPoint">The client's address.</param>
/// <param name="IsSecure">Whether it uses TLS.</param>
/// <param name="User">The user; null when there is none or none is known.</param>
/// <param name="IsRequest">True when it comes from a request, whose user is anonymous when none is known. An anonymous user is created on demand, because it takes 270 bytes.</param>
internal sealed record ConnectionOrigin(IPEndPoint? RemoteEndPoint, bool IsSecure, ClaimsPrincipal? User = null, bool IsRequest = false);

/// <summary>When a connection started and when it was last active. Its reader writes this, the sweep reads it.</summary>
/// <remarks>Never copied.</remarks>
internal struct ConnectionActivity(TimeProvider timeProvider)
{
    private readonly long _startedAt = timeProvider.GetTimestamp();
    private long _heardAt = timeProvider.GetTimestamp();
    private long _receivedBytes;

    // Held for a few instructions. A Lock would take 40 bytes more of each connection.
    private SpinLock _gate = new(enableThreadOwnerTracking: false);

    // Guarded by _gate: a WebSocket's stream delays a read while the handler has what was read before, so that two may hold at once.
    private long _recordAt = timeProvider.GetTimestamp();
    private long _heldAt;
    private int _holds;

    public readonly TimeProvider TimeProvider => timeProvider;

    public readonly TimeSpan Age => timeProvider.GetElapsedTime(_startedAt);

    /// <summary>The time since the last whole record, without that in which the client was not read.</summary>
    public TimeSpan RecordAge
    {
        get
        {
            var now = timeProvider.GetTimestamp();
            Enter();
            var (recordAt, end) = (_recordAt, _holds > 0 ? Math.Max(_recordAt, _heldAt) : now);
            Exit();
            return timeProvider.GetElapsedTime(recordAt, end);
        }
    }

    /// <summary>The time since the last byte arrived or the last keep-alive was sent.</summary>
    public readonly TimeSpan Silence => timeProvider.GetElapsedTime(Volatile.Read(in _heardAt));

    public readonly long ReceivedBytes => Volatile.Read(in _receivedBytes);

    public void NoteBytes(int bytes)
    {
        Volatile.Write(ref _receivedBytes, _receivedBytes + bytes);
        NoteKeepAlive();
    }

    public void NoteRecord()
    {
        var now = timeProvider.GetTimestamp();
        Enter();
        _recordAt = now;
        Exit();
    }

    /// <summary>The client is not read from here on, until <see cref="Resume"/> was called as often as this: what it sends meanwhile arrives later, and it is not idle for that.</summary>
    public void Hold()
    {
        var now = timeProvider.GetTimestamp();
        Enter();
        if (_holds++ == 0)
            _heldAt = now;
        Exit();
    }

    /// <summary>The client is read again, when nothing else holds it.</summary>
    public void Resume()
    {
        var now = timeProvider.GetTimestamp();
        Enter();
        if (--_holds == 0)
            _recordAt += now - Math.Max(_recordAt, _heldAt);
        Exit();
    }

    public void NoteKeepAlive() => Volatile.Write(ref _heardAt, timeProvider.GetTimestamp());

    private void Enter()
    {
        var isTaken = false;
        _gate.Enter(ref isTaken);
    }

    private void Exit() => _gate.Exit(useMemoryBarrier: false);
}

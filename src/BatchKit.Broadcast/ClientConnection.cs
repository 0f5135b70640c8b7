using System.Net;
using System.Security.Claims;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Groups;
using BatchKit.Broadcast.Telnet;

namespace BatchKit.Broadcast;

/// <summary>One client of this node. Write to its <see cref="Handle"/> through an <see cref="IOutputBuffer"/>.</summary>
/// <remarks>Use it from any thread.</remarks>
public sealed class ClientConnection
{
    private readonly TaskCompletionSource<DisconnectReason> _closing = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private volatile byte _format;
    private volatile bool _isAuthenticated;
    private volatile bool _isAborted;

    internal ClientConnection(OutputHandle handle, ClientProtocol protocol, ConnectionOrigin origin, SendQueue output, WireFormat format, TimeProvider timeProvider)
    {
        Handle = handle;
        Protocol = protocol;
        Origin = origin;
        Output = output;
        Activity = new ConnectionActivity(timeProvider);
        Memberships = new Memberships(this);
        _format = format.Index;
        _isAuthenticated = origin.User?.Identity?.IsAuthenticated is true;
    }

    /// <summary>Where output for it goes; never used for another connection.</summary>
    public OutputHandle Handle { get; }

    /// <summary>What it speaks.</summary>
    public ClientProtocol Protocol { get; }

    /// <summary>The client's address, as a trusted proxy tells it; null where there is none, as on a Unix socket.</summary>
    public IPEndPoint? RemoteEndPoint => Origin.RemoteEndPoint;

    /// <summary>True when it came by TLS, to here or to a trusted proxy that says so.</summary>
    public bool IsSecure => Origin.IsSecure;

    /// <summary>Who the WebSocket's request was authenticated as; null for other protocols.</summary>
    public ClaimsPrincipal? User => Origin.User;

    /// <summary>What a telnet client told of itself; null for other protocols.</summary>
    public TelnetTerminal? Terminal { get; internal init; }

    /// <summary>True once it is authenticated, so that <see cref="BroadcastOptions.MaxUnauthenticatedBytes"/> and <see cref="BroadcastOptions.AuthenticationTimeout"/> no longer hold for it.</summary>
    public bool IsAuthenticated => _isAuthenticated;

    internal ConnectionOrigin Origin { get; }

    internal SendQueue Output { get; }

    internal ConnectionActivity Activity { get; }

    internal Memberships Memberships { get; }

    /// <summary>Puts a prompt that shows behind what is sent; null for none.</summary>
    internal TelnetPrompts? Prompts { get; init; }

    /// <summary>How its messages look; telnet's changes as the two sides agree on more.</summary>
    internal WireFormat Format
    {
        get => WireFormat.FromIndex(_format);
        set => _format = value.Index;
    }

    /// <summary>True once it is to end at once.</summary>
    internal bool IsAborted => _isAborted;

    /// <summary>Completes with the first reason for which it is to end.</summary>
    internal Task<DisconnectReason> Closing => _closing.Task;

    /// <summary>Says that the handler knows who it is.</summary>
    public void MarkAuthenticated() => _isAuthenticated = true;

    /// <summary>Closes it after what was written to its socket's queue; output that still waits in a buffer is too late. A control message (<see cref="ControlMessage.Close"/>) keeps its place in the output.</summary>
    public void Close() => Close(DisconnectReason.Closed);

    /// <summary>Ends it at once; what waits for it is dropped, counted.</summary>
    public void Abort() => Abort(DisconnectReason.Aborted);

    /// <summary>The handle, for a person.</summary>
    public override string ToString() => $"{Protocol} {Handle}";

    internal void Close(DisconnectReason reason)
    {
        if (_closing.TrySetResult(reason))
            Output.Complete(ClosingBytes.For(Protocol, reason));
    }

    internal void Abort(DisconnectReason reason)
    {
        _isAborted = true;
        _closing.TrySetResult(reason);
        Output.Abort(reason switch
        {
            DisconnectReason.SlowConsumer => DeliveryOutcome.DroppedSlowConsumer,
            DisconnectReason.ConnectionLost => DeliveryOutcome.Failed,
            _ => DeliveryOutcome.DroppedClosed,
        });
    }

    /// <summary>Puts messages on its wire or in its queue.</summary>
    internal void Send(in OutputRun run, ref DeliveryTally tally)
    {
        if (Output.Send(run, ref tally) is { } reason)
            Abort(reason);
    }

    /// <summary>Puts a protocol's own bytes behind what was sent.</summary>
    internal void SendControl(ReadOnlySpan<byte> bytes, Func<IWire, IWire>? nextWire = null)
    {
        if (Output.SendControl(bytes, nextWire) is { } reason)
            Abort(reason);
    }
}

using System.Diagnostics.CodeAnalysis;
using System.Diagnostics.Metrics;
using System.Text;
using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.Sessions;

/// <summary>Keeps the sessions of this process: numbers what is written to them, keeps it while their clients may need it, and forwards it to their connections through the output buffer. <c>UseSessions</c> registers it.</summary>
/// <remarks>
/// <para>It lives where the output is written, in the game's process, so that a gateway that ends loses nothing. A send completes when the histories have the messages; the buffer then forwards them. Output for a session that has ended is refused.</para>
/// <para>What a client that acknowledges gets, one message each: <c>NUMBER PAYLOAD</c>, <c>session TOKEN</c> after it has opened, <c>resumed NEXT</c> after it has resumed, <c>gap FROM TO</c> for what is lost, <c>skip FROM TO</c> for latest values that newer ones
/// replaced, <c>ended</c>, <c>expired</c> or <c>full</c> when its line was refused, and <c>unknown</c> when it acknowledges although its connection has no session (a restart, a <see cref="Suspend"/>): it resumes then. It sends <c>session open</c>, <c>session resume TOKEN LAST</c> and <c>session ack NUMBER</c>, soon after each message, because it gets at most 256 KiB ahead of that, and every 30 s. Over TCP each message must be one line.</para>
/// <para>All members are thread-safe.</para>
/// </remarks>
public sealed class SessionTransport : IBatchTransport, IAsyncDisposable, IDisposable
{
    /// <summary>The name of the route to the sessions: <c>sessions</c>.</summary>
    public const string RouteName = "sessions";

    // No connection has as high a number. Sessions start at a random place behind it, so that a handle of an earlier run is none of this one.
    private const long FirstSequence = 1L << 46;

    private readonly Func<IOutputBuffer> _getOutput;
    private readonly SessionOptions _options;
    private readonly NodeNumber _node;
    private readonly TimeProvider _timeProvider;
    private readonly GuardedLogger _logger;
    private readonly LogThrottle _logThrottle;
    private readonly SessionCounters _counters = new();
    private readonly SessionTable _table;
    private readonly TotalHistoryLimit _limit;
    private readonly ConnectionNotices _notices;
    private readonly SessionSweep _sweep;
    private readonly SessionMetrics _metrics;
    private IOutputBuffer? _output;
    private long _sequence = FirstSequence + Random.Shared.NextInt64(FirstSequence / 2);
    private volatile bool _isDisposed;

    /// <summary>Creates a transport without sessions.</summary>
    /// <param name="output">Gets the buffer that writes to the connections; asked at the first need. The sessions' output may have a buffer of its own: then this transport is no route of it, and groups take one route fewer.</param>
    /// <param name="options">The settings; the defaults when null.</param>
    /// <param name="node">This process's number, which is part of every token; 0 when null.</param>
    /// <param name="timeProvider">The clock; the system's when null.</param>
    /// <param name="logger">Gets warnings; none when null.</param>
    /// <param name="meterFactory">Creates the meter <c>BatchKit</c>; by default, the transport creates it itself.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">An option is outside its range; the message names it.</exception>
    public SessionTransport(
        Func<IOutputBuffer> output, SessionOptions? options = null, NodeNumber? node = null, TimeProvider? timeProvider = null, ILogger<SessionTransport>? logger = null, IMeterFactory? meterFactory = null)
    {
        ArgumentNullException.ThrowIfNull(output);
        _options = options ?? new SessionOptions();
        OptionsRules.ThrowIfInvalid(new SessionOptionsValidator(), _options);
        _getOutput = output;
        _node = node ?? new NodeNumber(0);
        _timeProvider = timeProvider ?? TimeProvider.System;
        _logger = GuardedLogger.Of(logger ?? NullLogger<SessionTransport>.Instance);
        _logThrottle = new LogThrottle(_timeProvider);
        _table = new SessionTable(_options.MaxSessions);
        _limit = new TotalHistoryLimit(_options, _table, _counters);
        _metrics = new SessionMetrics(GetStatistics, meterFactory, _logger.Faults);
        _sweep = new SessionSweep(this, _options.AwayTimeout, _timeProvider);
        _notices = new ConnectionNotices(this, _sweep, _options.MaxSessions);
    }

    /// <inheritdoc/>
    /// <remarks>True: it copies and numbers the messages.</remarks>
    public bool SendsWithoutBlocking => true;

    /// <summary>True for the handle of a session of this process, also of one that has ended.</summary>
    /// <param name="handle">Any handle.</param>
    public bool Owns(OutputHandle handle) => handle.IsConnection && (handle.Number & FirstSequence) != 0 && handle.Node == _node.Value;

    /// <inheritdoc/>
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        cancellationToken.ThrowIfCancellationRequested();
        var delivery = new SessionDelivery(this, _table, _limit);
        return delivery.RunAsync(batches, cancellationToken);
    }

    /// <summary>Opens a session for a connection. One that the connection had ends: a client that opens another has done with it, and a flood of lines keeps one session.</summary>
    /// <param name="connection">The client's connection.</param>
    /// <param name="acknowledges">True for a client that knows the protocol; it is told the token. False for telnet: tell the player <see cref="Session.Token"/> yourself, for <c>session resume TOKEN</c>.</param>
    /// <param name="session">The session.</param>
    /// <returns>False when there are <see cref="SessionOptions.MaxSessions"/>.</returns>
    /// <exception cref="ArgumentException"><paramref name="connection"/> is no connection.</exception>
    public bool TryOpen(OutputHandle connection, bool acknowledges, [NotNullWhen(true)] out Session? session)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        ThrowIfNoConnection(connection);
        var now = _sweep.Now;
        session = new Session(OutputHandle.Connection(_node.Value, Interlocked.Increment(ref _sequence)), acknowledges, _options, _counters, now);
        if (!_table.TryAdd(session))
        {
            SessionCounters.Add(ref _counters.RefusedLines, 1);
            session = null;
            return false;
        }

        SessionCounters.Add(ref _counters.Opened, 1);
        _notices.TryTake(connection, out _);
        session.TryAttach(connection, SessionGreeting.Opened, lastReceived: null, now, out _);
        if (Bind(session, connection) is { } former && former.TryEnd(out _, expected: connection))
            End(former);
        Forward(session);
        return true;
    }

    /// <summary>Takes a session up at a connection: its older connection is closed, and what the client has not received is sent, in order and before what is written later.</summary>
    /// <param name="token">The session's token.</param>
    /// <param name="connection">The client's new connection.</param>
    /// <param name="lastReceived">The number of the last message that the client has received, zero for none; not used for a client that does not acknowledge.</param>
    /// <param name="session">The session.</param>
    /// <returns>False when the token is unknown, the session has ended, or the number was never sent. The session is left as it is.</returns>
    /// <exception cref="ArgumentException"><paramref name="connection"/> is no connection.</exception>
    public bool TryResume(string token, OutputHandle connection, long lastReceived, [NotNullWhen(true)] out Session? session)
    {
        ArgumentNullException.ThrowIfNull(token);
        return TryResume(token.Length > SessionToken.MaxBytes ? [] : Encoding.UTF8.GetBytes(token), connection, lastReceived, out session);
    }

    /// <summary>Does what a client's line asks for when it is a session's: opens one for a client that acknowledges, resumes one, or acknowledges. Call it for each line, behind the client's login if it has one.</summary>
    /// <remarks>A client whose open or resume is refused is told so, and not otherwise treated: it opens a new session.</remarks>
    /// <param name="connection">The connection that the line came from.</param>
    /// <param name="line">The line.</param>
    /// <exception cref="ArgumentException"><paramref name="connection"/> is no connection.</exception>
    public SessionInput Receive(OutputHandle connection, ReadOnlySpan<byte> line)
    {
        var read = SessionLine.Read(line);
        Session? session = null;
        var isTaken = read.Kind switch
        {
            SessionLineKind.Opened => TryOpen(connection, acknowledges: true, out session),
            SessionLineKind.Resumed => TryResume(read.Token, connection, read.Number, out session),
            SessionLineKind.Acknowledged => TryAcknowledge(connection, read.Number, out session),
            _ => true,
        };
        if (isTaken)
            return new SessionInput(read.Kind, session);
        if (read.Kind == SessionLineKind.Opened)
            _notices.Tell(connection, ConnectionNotice.Full);
        else if (read.Kind == SessionLineKind.Resumed)
            _notices.Tell(connection, ConnectionNotice.Expired);
        else if (session is null)
            _notices.Tell(connection, ConnectionNotice.Unknown);
        return new SessionInput(SessionLineKind.Refused, null);
    }

    /// <summary>Reads which node has the session that a line resumes, so that a gateway knows where to send it.</summary>
    /// <param name="line">A client's line.</param>
    /// <param name="node">The number of the node.</param>
    /// <returns>False when the line resumes no session.</returns>
    public static bool TryReadNode(ReadOnlySpan<byte> line, out int node)
    {
        var read = SessionLine.Read(line);
        var isRead = SessionToken.TryRead(read.Token, out var session, out _);
        node = session.Node;
        return isRead;
    }

    /// <summary>Lets a connection's session wait for its client. Call it when the connection has ended.</summary>
    /// <param name="connection">The connection.</param>
    /// <returns>False when it has no session, or that has another connection by now.</returns>
    public bool Suspend(OutputHandle connection)
    {
        if (!_table.TryGetByConnection(connection, out var session))
            return false;
        _table.Unbind(connection, session);
        return TryDetach(session, connection);
    }

    /// <summary>Ends a session at once. Its connection stays open.</summary>
    /// <param name="session">The session.</param>
    /// <returns>False when it had ended before.</returns>
    public bool End(Session session)
    {
        ArgumentNullException.ThrowIfNull(session);
        var hasEnded = session.TryEnd(out var connection);
        _table.Remove(session);
        _table.Unbind(connection, session);
        return hasEnded;
    }

    /// <summary>Finds a session by its handle, or by its connection's.</summary>
    /// <param name="handle">The handle.</param>
    /// <param name="session">The session.</param>
    /// <returns>False when there is none, or it has ended.</returns>
    public bool TryGet(OutputHandle handle, [NotNullWhen(true)] out Session? session) => _table.TryGet(handle, out session) || _table.TryGetByConnection(handle, out session);

    /// <summary>Reads the counters. It visits every session: use it for a page or a test, not on a hot path.</summary>
    public SessionStatistics GetStatistics() => _counters.Read(_table.Count, _table.All.Count(static session => session.Connection.IsNone));

    /// <summary>Ends the timer. The sessions are forgotten with the process.</summary>
    public async ValueTask DisposeAsync()
    {
        _isDisposed = true;
        await _sweep.DisposeAsync().ConfigureAwait(false);
        _metrics.Dispose();
    }

    /// <inheritdoc cref="DisposeAsync"/>
    public void Dispose()
    {
        _isDisposed = true;
        _sweep.Dispose();
        _metrics.Dispose();
    }

    internal IOutputBuffer Output => _output ??= _getOutput();

    /// <summary>The timestamp from which on a message is not forwarded.</summary>
    /// <param name="timeLeft">How long it may be forwarded; null for any time.</param>
    internal long DeadlineAfter(TimeSpan? timeLeft) =>
        timeLeft is { } time ? _timeProvider.GetTimestamp() + (long)(time.TotalSeconds * _timeProvider.TimestampFrequency) : SessionMessage.NoDeadline;

    /// <summary>Hands to a session's connection what it has not got, unless another thread is doing so.</summary>
    internal void Forward(Session session)
    {
        if (!session.TryBeginForwarding(_timeProvider.GetTimestamp(), out var work))
            return;
        bool isComplete, closes;
        do
        {
            try
            {
                work.Write(Output, session, _timeProvider);
            }
            catch (Exception failure)
            {
                // A buffer that has stopped, or a router of the application's. The history has what is missing.
                CountFailure(failure);
            }

            (isComplete, closes) = (work.IsComplete, work is { IsComplete: true, Closes: true });
        }
        while (session.ContinueForwarding(_timeProvider.GetTimestamp()));

        // Only now: a run of the sweep before the end of the loop would have left the session to this thread.
        if (!isComplete)
            _sweep.ForwardsSoon();
        if (closes)
            End(session);
    }

    /// <summary>Ends what has waited for too long, and lets sessions of silent clients wait. It calls nothing of the application's.</summary>
    internal void Age(long now)
    {
        foreach (var session in _table.All)
        {
            if (session.IsSilent(now, _options.SilenceTimeout, _timeProvider, out var connection) && Suspend(connection))
                _notices.TellSoon(connection, ConnectionNotice.Closed);
            if (!session.TryExpire(now, _options.AwayTimeout, _timeProvider))
                continue;
            End(session);
            SessionCounters.Add(ref _counters.Expired, 1);
        }
    }

    /// <summary>What a pass of the sweep forwards: the notices that wait, and each session.</summary>
    internal (OutputHandle[] Connections, Session[] Sessions) GetForwards() => (_notices.Waiting, _table.All);

    /// <summary>Tells a connection what found no capacity.</summary>
    internal void TellAgain(OutputHandle connection) => _notices.TellAgain(connection);

    /// <summary>Forwards what found no capacity or is asked for again.</summary>
    internal void ForwardAgain(Session session)
    {
        if (!session.TryRepeat(_sweep.Now, _timeProvider))
            _sweep.ForwardsSoon();
        Forward(session);
    }

    internal void CountFailure(Exception failure)
    {
        SessionCounters.Add(ref _counters.FailedForwards, 1);
        _logger.ForwardFailed(_logThrottle, failure);
    }

    private bool TryResume(ReadOnlySpan<byte> token, OutputHandle connection, long lastReceived, [NotNullWhen(true)] out Session? session)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        ThrowIfNoConnection(connection);
        var isKnown = SessionToken.TryRead(token, out var handle, out var secret) & _table.TryGet(handle, out session) && session!.HasSecret(secret);
        var older = default(OutputHandle);

        // Before the connection has the session: what another resume tells it from then on is newer.
        _notices.TryTake(connection, out var waiting);
        if (!isKnown || !session!.TryAttach(connection, SessionGreeting.Resumed, session.Acknowledges ? lastReceived : null, _sweep.Now, out older))
        {
            if (waiting is not null)
                _notices.Tell(connection, waiting);
            SessionCounters.Add(ref _counters.RefusedLines, 1);
            session = null;
            return false;
        }

        SessionCounters.Add(ref _counters.Resumed, 1);
        if (Bind(session, connection) is { } other)
            TryDetach(other, connection);
        if (!older.IsNone && older != connection)
        {
            _table.Unbind(older, session);
            _notices.Tell(older, ConnectionNotice.Closed);
        }

        ForwardAgain(session);
        return true;
    }

    private bool TryAcknowledge(OutputHandle connection, long number, out Session? session)
    {
        var isTaken = _table.TryGetByConnection(connection, out session) && session.Acknowledge(connection, number, _sweep.Now);
        if (isTaken)
            ForwardAgain(session!);
        else
            SessionCounters.Add(ref _counters.RefusedLines, 1);
        return isTaken;
    }

    /// <returns>The other session that the connection had; null for none.</returns>
    private Session? Bind(Session session, OutputHandle connection)
    {
        var other = _table.Bind(connection, session);
        // Another thread may have taken the session elsewhere meanwhile: the connection must not stay bound to it.
        if (session.Connection != connection)
            _table.Unbind(connection, session);
        return other;
    }

    // No one can take up a session that is closing, so it waits for no one.
    private bool TryDetach(Session session, OutputHandle connection)
    {
        var isDetached = session.TryDetach(connection, _sweep.Now);
        if (isDetached && session.IsClosing)
            End(session);
        return isDetached;
    }

    private static void ThrowIfNoConnection(OutputHandle connection)
    {
        if (!connection.IsConnection)
            throw new ArgumentException("A session's client has a connection: pass its handle.", nameof(connection));
    }
}

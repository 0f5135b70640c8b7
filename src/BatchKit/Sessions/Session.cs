using System.Security.Cryptography;

namespace BatchKit.Sessions;

/// <summary>A destination whose output waits while its client has no connection. Write to its <see cref="Handle"/> as to a connection's.</summary>
/// <remarks>
/// <see cref="ControlMessage"/>s that are written to it take effect in order: the session joins and leaves groups, whatever its connection is, and <see cref="ControlMessage.Close"/> ends it behind what was written before, and closes its connection.
/// Thread-safe. The <see cref="SessionTransport"/> opens sessions.
/// </remarks>
public sealed class Session
{
    // A short line must not cost a whole history each time. A client says where it is every 30 s.
    private static readonly TimeSpan RepeatPause = TimeSpan.FromSeconds(10);

    private readonly byte[] _secret;
    private readonly SessionCounters _counters;
    private readonly int _maxHistoryBytes;
    private long _lost;

    // Guards everything below but the work, and the history. The two that only become true are read without it.
    private readonly Lock _lock = new();
    private readonly SessionHistory _history;
    private readonly ForwardWindow? _window;
    private OutputHandle _connection;
    private OutputHandle _formerConnection;
    private SessionGreeting _greeting;
    private long _next = 1;
    private long _taken;
    private long _acknowledged;
    private long _evictedBefore;
    private long _since;
    private (long At, long To)? _repeated;
    private (SessionGreeting Greeting, long LastReceived)? _asked;
    private int _version;
    private bool _isForwarding;
    private bool _isClosing;
    private bool _hasEnded;

    // Belongs to the thread that forwards.
    private readonly ForwardedWork _work = new();

    internal Session(OutputHandle handle, bool acknowledges, SessionOptions options, SessionCounters counters, long now)
    {
        Handle = handle;
        Acknowledges = acknowledges;
        _counters = counters;
        // Without acknowledgements, all of it is handed over at once.
        _maxHistoryBytes = acknowledges ? options.MaxHistoryBytes : Math.Min(options.MaxHistoryBytes, ForwardWindow.MaxBytes);
        _window = acknowledges ? new ForwardWindow() : null;
        _history = new SessionHistory(counters);
        _secret = SessionToken.DrawSecret();
        _since = now;
        Token = SessionToken.Write(handle, _secret);
    }

    /// <summary>Where output for the client is written to; never another session's.</summary>
    public OutputHandle Handle { get; }

    /// <summary>The secret by which the client takes the session up again. Give it to this client alone.</summary>
    public string Token { get; }

    /// <summary>True when the client gets each message with its number, and acknowledges.</summary>
    public bool Acknowledges { get; }

    /// <summary>The connection that its output goes to; <c>default</c> while the client is away, and after the session's end.</summary>
    public OutputHandle Connection
    {
        get
        {
            lock (_lock)
                return _connection;
        }
    }

    /// <summary>True after the session's end.</summary>
    public bool HasEnded => Volatile.Read(ref _hasEnded);

    /// <summary>True when all that was written to it was handed to its connection, and after its end. Messages that the connection had no capacity for, or that are far ahead of its acknowledgements, are handed over later.</summary>
    /// <remarks>To go on without a session, stop writing to it, flush, wait for this, and end it: then nothing that is written to the connection overtakes it.</remarks>
    public bool IsForwarded
    {
        get
        {
            lock (_lock)
                return _hasEnded || (IsUpToDate && _asked is null);
        }
    }

    /// <summary>Messages that are known not to have reached its client: those that a limit had dropped when the client came back, those that expired, those that waited at the session's end, and those behind its close.</summary>
    public long LostMessages => SessionCounters.Read(ref _lost);

    /// <summary>Compares a secret in a time that does not depend on where it differs.</summary>
    internal bool HasSecret(ReadOnlySpan<byte> secret) => CryptographicOperations.FixedTimeEquals(_secret, secret);

    /// <summary>Numbers a message.</summary>
    /// <returns>False when the session has ended, or ends.</returns>
    internal bool Append(SessionMessage message)
    {
        lock (_lock)
        {
            if (_hasEnded || _isClosing)
                return false;
            _history.Append(message);
            return true;
        }
    }

    /// <summary>Counts messages that arrived with its close, behind it.</summary>
    internal void Discard(int messages)
    {
        _counters.CountUnkept(messages);
        CountLost(messages);
    }

    /// <summary>True for the session itself and for its connection.</summary>
    internal bool IsAmong(ReadOnlySpan<OutputHandle> handles) => handles.Length > 0 && (handles.Contains(Handle) || handles.Contains(Connection));

    /// <summary>The bytes of its history.</summary>
    internal long HistoryBytes
    {
        get
        {
            lock (_lock)
                return _history.Bytes;
        }
    }

    /// <summary>Applies its limit. Call it when what the history has was forwarded.</summary>
    internal void Trim() => Trim(_maxHistoryBytes);

    /// <summary>Drops the oldest messages while there are more bytes.</summary>
    internal void Trim(long maxBytes)
    {
        lock (_lock)
            _history.Trim(maxBytes);
    }

    /// <summary>Ends the session behind what it has forwarded; one without a connection at once.</summary>
    /// <returns>True when it has no connection.</returns>
    internal bool BeginClosing()
    {
        lock (_lock)
        {
            _isClosing = true;
            return _connection.IsNone;
        }
    }

    /// <summary>True while it ends behind what it forwards, and afterwards.</summary>
    internal bool IsClosing => Volatile.Read(ref _isClosing);

    /// <summary>Takes the session to a connection. One that has it already, or had it last, asks for its history once more: see <see cref="TryRepeat"/>. The client has received what it says; null to go on behind what was handed to a connection.</summary>
    /// <returns>False when it has ended, or has never sent that number.</returns>
    internal bool TryAttach(OutputHandle connection, SessionGreeting greeting, long? lastReceived, long now, out OutputHandle older)
    {
        lock (_lock)
        {
            older = _connection;
            if (_hasEnded || _isClosing || lastReceived < 0 || lastReceived > _taken)
                return false;
            _since = now;
            if (older != connection)
                (_connection, _version) = (connection, _version + 1);

            // Also after another session at the same connection: a client that takes turns between two would get a whole history for each line.
            if (connection == (older.IsNone ? _formerConnection : older))
            {
                _asked = lastReceived is { } again ? (greeting, again) : null;
                return true;
            }

            _greeting = Acknowledges ? greeting : SessionGreeting.None;
            _asked = null;
            if (lastReceived is { } last)
                GoBack(last);
            return true;
        }
    }

    /// <summary>Goes back to what its client asked for again, unless it did a short time ago.</summary>
    /// <returns>False when that is to be done later.</returns>
    internal bool TryRepeat(long now, TimeProvider timeProvider)
    {
        lock (_lock)
        {
            if (_asked is not var (greeting, last))
                return true;
            // No message is repeated twice within the pause, but for the place of one that has expired behind the session: its client always lacks that.
            var isNew = greeting == SessionGreeting.Resumed && (last >= _repeated?.To || _history.HasExpired(last + 1, timeProvider.GetTimestamp()));
            if (!isNew && _repeated is { } repeated && timeProvider.GetElapsedTime(repeated.At, now) < RepeatPause)
                return false;
            (_repeated, _asked) = ((now, _taken), null);
            _greeting = greeting == SessionGreeting.None ? _greeting : greeting;
            _version++;
            GoBack(last);
            return true;
        }
    }

    /// <summary>Begins to wait for the client, unless its output goes to another connection by now.</summary>
    internal bool TryDetach(OutputHandle connection, long now)
    {
        lock (_lock)
        {
            if (_connection != connection || _hasEnded)
                return false;
            (_connection, _formerConnection, _asked) = (default, connection, null);
            _since = now;
            _version++;
            return true;
        }
    }

    /// <summary>Forgets what the client has. A client that says the same number again lacks what was handed to its connection since: it was lost under way, and is asked for: see <see cref="TryRepeat"/>.</summary>
    /// <returns>False when it can't have it, speaks through a connection that the session has left, or gets no numbers.</returns>
    internal bool Acknowledge(OutputHandle connection, long number, long now)
    {
        lock (_lock)
        {
            if (!Acknowledges || _hasEnded || _connection != connection || number < 0 || number > _taken)
                return false;
            _since = now;
            if (number == _acknowledged && number < _next - 1)
                _asked ??= (SessionGreeting.None, number);
            else if (number > _asked?.LastReceived)
                _asked = null;
            // What was to be forwarded again has arrived meanwhile.
            _next = Math.Max(_next, number + 1);
            Forget(number);
            return true;
        }
    }

    /// <summary>Ends the session, and gives the connection that it had; <c>default</c> for none.</summary>
    /// <returns>False when it had ended before, or has another connection than the expected one by now.</returns>
    internal bool TryEnd(out OutputHandle connection, OutputHandle? expected = null)
    {
        lock (_lock)
        {
            connection = _connection;
            if (_hasEnded || (expected is { } only && only != connection))
                return false;
            // What a connection has is not lost.
            CountLost(_history.Discard(connection.IsNone ? 0 : _next));
            (_hasEnded, _connection, _asked) = (true, default, null);
            _version++;
            return true;
        }
    }

    /// <summary>Ends the session if its client has been away for so long. One that comes back in time keeps it.</summary>
    internal bool TryExpire(long now, TimeSpan awayTimeout, TimeProvider timeProvider)
    {
        lock (_lock)
            return timeProvider.GetElapsedTime(_since, now) >= awayTimeout && TryEnd(out _, expected: default(OutputHandle));
    }

    /// <summary>True when its client acknowledges, has a connection, and has said nothing for so long.</summary>
    internal bool IsSilent(long now, TimeSpan longest, TimeProvider timeProvider, out OutputHandle connection)
    {
        lock (_lock)
        {
            connection = _connection;
            return Acknowledges && !connection.IsNone && timeProvider.GetElapsedTime(_since, now) >= longest;
        }
    }

    /// <summary>Takes what is to be forwarded, unless another thread forwards: that one takes it then.</summary>
    internal bool TryBeginForwarding(long now, out ForwardedWork work)
    {
        work = _work;
        lock (_lock)
            return !_isForwarding && (_isForwarding = Fill(now));
    }

    /// <summary>Records what was forwarded, and takes what has come meanwhile.</summary>
    /// <returns>False when there is nothing, when the connection takes no more for now, or when it is closed.</returns>
    internal bool ContinueForwarding(long now)
    {
        lock (_lock)
        {
            Commit();
            _work.Release();
            var goesOn = _work.IsComplete ? !_work.Closes : _work.Version != _version;
            return _isForwarding = goesOn && Fill(now);
        }
    }

    // An acknowledging client that has come back meanwhile has said where to go on.
    private void Commit()
    {
        if (_work.Version == _version && _work.HasGreeted)
            _greeting = SessionGreeting.None;
        if (_hasEnded || (_work.Version != _version && Acknowledges))
            return;
        // What the client has acknowledged is no loss, even if it asks for it again; nor is one lost twice, nor a value that a newer one had replaced.
        if (_work.Reached >= _work.First && _work.First > _work.From)
        {
            CountLost(Math.Clamp(_work.First - Math.Max(_work.From, _acknowledged + 1), 0, _history.Evicted - _evictedBefore));
            _evictedBefore = _history.Evicted;
        }

        CountLost(_work.Refused);
        _next = Math.Max(_next, _work.Reached);
        if (_window is null)
            _history.Acknowledge(_next - 1);
        else
            _work.CountWritten(_window, _acknowledged);
    }

    private bool IsUpToDate => _next >= _history.Next && _greeting == SessionGreeting.None;

    private void GoBack(long last)
    {
        _next = last + 1;
        _window?.Clear();
        Forget(last);
    }

    private void Forget(long number)
    {
        _acknowledged = Math.Max(_acknowledged, number);
        if (number >= _history.First - 1)
            _evictedBefore = _history.Evicted;
        _history.Acknowledge(number);
        _window?.Acknowledge(number);
    }

    private void CountLost(long messages)
    {
        SessionCounters.Add(ref _lost, messages);
        SessionCounters.Add(ref _counters.Lost, messages);
    }

    private bool Fill(long now)
    {
        if (_connection.IsNone || (IsUpToDate && !_isClosing))
            return false;
        var first = Math.Max(_next, _history.First);
        _work.Begin(_connection, _version, _greeting, _next, first, now);
        var expired = _history.Expired;
        // What its limit is about to drop is not held back.
        var maxBytes = _window is null ? long.MaxValue : Math.Max(_window.FreeBytes, _history.Bytes - _maxHistoryBytes);
        _work.End = _history.CopyTo(_work, first, maxBytes, now);
        CountLost(_history.Expired - expired);
        _taken = Math.Max(_taken, _work.End - 1);
        _work.Closes = _isClosing && _work.End == _history.Next;
        return _work.HasOutput;
    }
}

using System.Collections.Immutable;
using System.Threading.Channels;
using BatchKit.Transports;

namespace MudServer.Game;

/// <summary>The last hop of players' input, bounded in lines and in bytes. The game loop takes the next line of the connection that has used the least of its time, so that no connection delays the others.</summary>
/// <remarks>When it is full, the hops before it wait, back to the sockets.</remarks>
/// <param name="discardsWhenStopped">
/// True when the connections end with the game: input after its end is dropped. False when a broker keeps that input for the
/// next game.
/// </param>
/// <param name="timeProvider">Measures the time of each line.</param>
internal sealed class GameInput(bool discardsWhenStopped, TimeProvider timeProvider) : IBatchTransport
{
    // After this time, the time that a connection has used counts half.
    private static readonly TimeSpan HalfLife = TimeSpan.FromMilliseconds(250);

    private const int MaxWaitingLines = 16_384;
    private const int MaxWaitingBytes = 4 * 1024 * 1024;

    // Guards the fields below.
    private readonly Lock _lock = new();
    private readonly Dictionary<OutputHandle, WaitingLines> _waiting = [];
    private readonly List<OutputHandle> _turns = [];
    private readonly Dictionary<OutputHandle, TimeSpan> _used = [];
    private readonly Queue<InputBatch> _ofGames = [];

    // How many answers of a connection are not complete: a password's check may still end when the game answers it.
    private readonly Dictionary<OutputHandle, int> _paused = [];
    private long _halvedAt = timeProvider.GetTimestamp();
    private int _waitingLines;
    private int _waitingBytes;
    private bool _isHeld;
    private bool _isCompleted;
    private TaskCompletionSource? _changed;

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => AcceptAsync(batches, shard: 1, cancellationToken);

    /// <summary>Takes what was sent to a shard.</summary>
    public async ValueTask AcceptAsync(ReadOnlyMemory<MessageBatch> batches, int shard, CancellationToken cancellationToken)
    {
        for (var index = 0; index < batches.Length; index++)
        {
            var batch = batches.Span[index];
            if (!batch.Handle.IsConnection)
                continue;
            try
            {
                while (!TryAdd(InputBatch.Read(batch, shard), out var changed))
                    await changed.WaitAsync(cancellationToken);
            }
            catch (ChannelClosedException) when (discardsWhenStopped)
            {
                return;
            }
            catch (Exception exception) when (index > 0)
            {
                throw new BatchSendException(FirstAcknowledged(batches.Length, index), "The game took only some of the input.", exception);
            }
        }
    }

    /// <summary>
    /// Completes when no line of a connection waits any more. A connection of the same process then sends its next few lines, so that one that sends many neither fills this queue nor delays
    /// the others.
    /// </summary>
    public async ValueTask WhenTakenAsync(OutputHandle connection, CancellationToken cancellationToken)
    {
        while (true)
        {
            Task taken;
            lock (_lock)
            {
                if (_isCompleted || !_waiting.TryGetValue(connection, out var queue))
                    return;
                taken = queue.WhenTaken.Task;
            }

            await taken.WaitAsync(cancellationToken);
        }
    }

    /// <summary>Reads until the input is complete, nothing waits, and no connection is paused.</summary>
    public async IAsyncEnumerable<InputBatch> ReadAllAsync()
    {
        while (true)
        {
            if (TryTake(out var next, out var changed))
            {
                var began = timeProvider.GetTimestamp();
                yield return next;
                // The start of a node uses no one's time: the next start of the same node must come before the lines of its new connections.
                if (next.Messages is not [{ Kind: InputKind.NodeStarted }])
                    NoteUse(next.Connection, timeProvider.GetElapsedTime(began));
            }
            else if (changed is null)
                yield break;
            else
                await changed;
        }
    }

    /// <summary>Holds back all lines, or lets them go. What other games tell is read all the same.</summary>
    public void Hold(bool isHeld)
    {
        lock (_lock)
        {
            _isHeld = isHeld;
            Announce();
        }
    }

    /// <summary>Holds back the lines of one connection, one of whose answers is not complete.</summary>
    public void Pause(OutputHandle connection)
    {
        lock (_lock)
        {
            _paused[connection] = _paused.GetValueOrDefault(connection) + 1;
            _turns.Remove(connection);
        }
    }

    /// <summary>Lets the lines of a connection go on, when no other answer holds them back.</summary>
    public void Resume(OutputHandle connection)
    {
        lock (_lock)
        {
            if (_paused.Remove(connection, out var answers) && answers > 1)
                _paused.Add(connection, answers - 1);
            else if (answers > 0 && _waiting.ContainsKey(connection))
                _turns.Add(connection);
            Announce();
        }
    }

    /// <summary>Has the game look which players were away for too long.</summary>
    public void Check() => AddOfGame(InputKind.Check, connection: default, shard: 1);

    /// <summary>Tells the game that a session's password has been hashed.</summary>
    public void TellChecked(Session session) => AddOfGame(InputKind.PasswordChecked, session.Handle, session.Shard);

    /// <summary>Takes all lines of a shard that wait.</summary>
    public IReadOnlyList<InputBatch> TakeAll(int shard)
    {
        lock (_lock)
        {
            var taken = _waiting.Where(waiting => waiting.Value.Shard == shard).Select(waiting => new InputBatch(waiting.Key, [.. waiting.Value], shard)).ToList();
            ForgetAll(waiting => waiting.Value.Shard == shard);
            return taken;
        }
    }

    /// <summary>True when it accepts no more input.</summary>
    public bool IsCompleted
    {
        get
        {
            lock (_lock)
                return _isCompleted;
        }
    }

    /// <summary>Stops accepting input. Lines that wait are still read.</summary>
    public void Complete()
    {
        lock (_lock)
        {
            _isCompleted = true;
            foreach (var queue in _waiting.Values)
                queue.WhenTaken.TrySetResult();
            Announce();
        }
    }

    private void AddOfGame(InputKind kind, OutputHandle connection, int shard)
    {
        lock (_lock)
        {
            _ofGames.Enqueue(new InputBatch(connection, [new InputMessage(kind, string.Empty)], shard));
            Announce();
        }
    }

    private bool TryAdd(InputBatch added, out Task changed)
    {
        lock (_lock)
        {
            if (_isCompleted)
                throw new ChannelClosedException("The game takes no more input.");
            var isFull = _waitingLines >= MaxWaitingLines || _waitingBytes >= MaxWaitingBytes;
            changed = isFull ? Changed() : Task.CompletedTask;
            if (isFull)
                return false;
            if (added.Messages.Any(message => message.IsOfGame))
            {
                _ofGames.Enqueue(added);
                Announce();
                return true;
            }

            // A node that has started again has lost its earlier connections, so the message of its start goes before their lines.
            if (added.Messages.Any(message => message.Kind == InputKind.NodeStarted))
                ForgetAll(waiting => waiting.Key.Node == added.Connection.Node && waiting.Value.Shard == added.Shard);
            if (!_waiting.TryGetValue(added.Connection, out var queue))
            {
                _waiting.Add(added.Connection, queue = new WaitingLines());
                if (!_paused.ContainsKey(added.Connection))
                    _turns.Add(added.Connection);
            }

            queue.Shard = added.Shard;
            foreach (var message in added.Messages)
            {
                queue.Enqueue(message);
                _waitingLines++;
                _waitingBytes += BytesOf(message);
            }

            Announce();
            return true;
        }
    }

    /// <returns>False when nothing waits: until the task completes, or for ever when there is no task.</returns>
    private bool TryTake(out InputBatch next, out Task? changed)
    {
        lock (_lock)
        {
            (next, changed) = (null!, null);
            if (_ofGames.TryDequeue(out next!))
                return true;
            if (_turns.Count == 0 || (_isHeld && !_isCompleted))
            {
                changed = _isCompleted && _paused.Count == 0 ? null : Changed();
                return false;
            }

            var connection = TakeTurn();
            var queue = _waiting[connection];
            var message = queue.Dequeue();
            if (queue.Count > 0)
                _turns.Add(connection);
            else
                Remove(connection, queue);
            _waitingLines--;
            _waitingBytes -= BytesOf(message);
            next = new InputBatch(connection, [message], queue.Shard);
            Announce();
            return true;
        }
    }

    // Connections that have used equal time take turns.
    private OutputHandle TakeTurn()
    {
        var first = 0;
        for (var index = 1; index < _turns.Count; index++)
        {
            if (Used(_turns[index]) < Used(_turns[first]))
                first = index;
        }

        var connection = _turns[first];
        _turns.RemoveAt(first);
        return connection;
    }

    private TimeSpan Used(OutputHandle connection) => _used.GetValueOrDefault(connection);

    private void NoteUse(OutputHandle connection, TimeSpan elapsed)
    {
        lock (_lock)
        {
            _used[connection] = Used(connection) + elapsed;
            if (timeProvider.GetElapsedTime(_halvedAt) < HalfLife)
                return;
            _halvedAt = timeProvider.GetTimestamp();
            foreach (var (user, used) in _used)
            {
                if (used > TimeSpan.FromMicroseconds(1))
                    _used[user] = used / 2;
                else
                    _used.Remove(user);
            }
        }
    }

    private void ForgetAll(Func<KeyValuePair<OutputHandle, WaitingLines>, bool> isForgotten)
    {
        foreach (var (connection, queue) in _waiting.Where(isForgotten).ToList())
        {
            _waitingLines -= queue.Count;
            _waitingBytes -= queue.Sum(BytesOf);
            Remove(connection, queue);
        }

        _turns.RemoveAll(connection => !_waiting.ContainsKey(connection));
    }

    private void Remove(OutputHandle connection, WaitingLines queue)
    {
        _waiting.Remove(connection);
        queue.WhenTaken.TrySetResult();
    }

    private Task Changed() => (_changed ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)).Task;

    private void Announce()
    {
        _changed?.SetResult();
        _changed = null;
    }

    // Includes the fixed cost of a text.
    private static int BytesOf(InputMessage message) => 64 + (sizeof(char) * message.Text.Length);

    private static ImmutableArray<BatchOutcome> FirstAcknowledged(int count, int acknowledged) =>
        [.. Enumerable.Range(0, count).Select(index => index < acknowledged ? BatchOutcome.Acknowledged : BatchOutcome.Unacknowledged)];

    private sealed class WaitingLines : Queue<InputMessage>
    {
        /// <summary>The shard that the last of them was sent to.</summary>
        public int Shard { get; set; }

        public TaskCompletionSource WhenTaken { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);
    }
}

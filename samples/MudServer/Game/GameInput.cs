using System.Collections.Immutable;
using System.Threading.Channels;
using BatchKit.Transports;

namespace MudServer.Game;

/// <summary>The last hop of players' input: bounded in lines and in bytes. The game loop takes one line of each connection in turn, so that who sends many lines holds up no one else.</summary>
/// <remarks>When it is full, the hop before waits, down to the sockets.</remarks>
/// <param name="discardsWhenStopped">
/// True where the connections end with the game, so that no one will miss what comes after its end. False where a broker keeps it for the
/// next game.
/// </param>
internal sealed class GameInput(bool discardsWhenStopped) : IBatchTransport
{
    private const int MaxWaitingLines = 1024;
    private const int MaxWaitingBytes = 1024 * 1024;

    // Guards the fields below.
    private readonly Lock _lock = new();
    private readonly Dictionary<OutputHandle, Queue<InputMessage>> _waiting = [];
    private readonly Queue<OutputHandle> _turns = new();
    private int _waitingLines;
    private int _waitingBytes;
    private bool _isCompleted;
    private TaskCompletionSource? _changed;

    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        for (var index = 0; index < batches.Length; index++)
        {
            var batch = batches.Span[index];
            if (!batch.Handle.IsConnection)
                continue;
            try
            {
                while (!TryAdd(batch, out var changed))
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

    /// <summary>Reads until the input is complete and nothing waits.</summary>
    public async IAsyncEnumerable<InputBatch> ReadAllAsync()
    {
        while (true)
        {
            if (TryTake(out var next, out var changed))
                yield return next;
            else if (changed is null)
                yield break;
            else
                await changed;
        }
    }

    /// <summary>Takes no more; what waits is still read.</summary>
    public void Complete()
    {
        lock (_lock)
        {
            _isCompleted = true;
            Announce();
        }
    }

    private bool TryAdd(MessageBatch batch, out Task changed)
    {
        var added = InputBatch.Read(batch);
        lock (_lock)
        {
            if (_isCompleted)
                throw new ChannelClosedException("The game takes no more input.");
            var isFull = _waitingLines >= MaxWaitingLines || _waitingBytes >= MaxWaitingBytes;
            changed = isFull ? Changed() : Task.CompletedTask;
            if (isFull)
                return false;
            if (added.Messages.Any(message => message.Kind == InputKind.NodeStarted))
                ForgetNode(added.Connection.Node);
            if (!_waiting.TryGetValue(added.Connection, out var queue))
            {
                _waiting.Add(added.Connection, queue = new Queue<InputMessage>());
                _turns.Enqueue(added.Connection);
            }

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

    /// <returns>False when nothing waits: until the task completes, or for good when there is none.</returns>
    private bool TryTake(out InputBatch next, out Task? changed)
    {
        lock (_lock)
        {
            (next, changed) = (null!, null);
            if (!_turns.TryDequeue(out var connection))
            {
                changed = _isCompleted ? null : Changed();
                return false;
            }

            var queue = _waiting[connection];
            var message = queue.Dequeue();
            if (queue.Count > 0)
                _turns.Enqueue(connection);
            else
                _waiting.Remove(connection);
            _waitingLines--;
            _waitingBytes -= BytesOf(message);
            next = new InputBatch(connection, [message]);
            Announce();
            return true;
        }
    }

    // A node that has started anew has lost the connections that it had, and the start must not wait for its turn behind their lines.
    private void ForgetNode(int node)
    {
        foreach (var connection in _waiting.Keys.Where(connection => connection.Node == node).ToList())
        {
            _waitingLines -= _waiting[connection].Count;
            _waitingBytes -= _waiting[connection].Sum(BytesOf);
            _waiting.Remove(connection);
        }

        var others = _turns.Where(_waiting.ContainsKey).ToList();
        _turns.Clear();
        others.ForEach(_turns.Enqueue);
    }

    private Task Changed() => (_changed ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)).Task;

    private void Announce()
    {
        _changed?.SetResult();
        _changed = null;
    }

    // With what a short text costs besides its letters.
    private static int BytesOf(InputMessage message) => 64 + (sizeof(char) * message.Text.Length);

    private static ImmutableArray<BatchOutcome> FirstAcknowledged(int count, int acknowledged) =>
        [.. Enumerable.Range(0, count).Select(index => index < acknowledged ? BatchOutcome.Acknowledged : BatchOutcome.Unacknowledged)];
}

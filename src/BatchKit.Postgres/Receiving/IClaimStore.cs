using System.Collections;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>The claims of one queue in the database, implemented for queues without order and for ordered ones. It keeps no state except statements and hints. Thread-safe.</summary>
internal interface IClaimStore
{
    /// <summary>Settles claims by the outcomes of their messages, and claims the next messages, in one round trip and one transaction.</summary>
    /// <remarks>
    /// It is idempotent: when it is unknown whether the transaction was committed, call it again with the same request, marked as a repeat. It then returns the claims that the lost attempt took. It refuses
    /// only claims whose messages are still there.
    /// </remarks>
    Task<ClaimExchange> ExchangeAsync(NpgsqlConnection connection, IReadOnlyList<Claim> settled, ClaimRequest request, CancellationToken cancellationToken);

    /// <summary>The most claims that one exchange takes.</summary>
    int MostClaims { get; }

    /// <summary>Settles a claim by the outcomes of its messages, as a part of a transaction of its handler.</summary>
    /// <returns>The number of the transaction; and false when the claim had ended, or the transaction has settled it before.</returns>
    /// <exception cref="NotSupportedException">The queue is ordered.</exception>
    Task<(ulong Transaction, bool IsSettled)> SettleAsync(NpgsqlTransaction transaction, Claim claim, CancellationToken cancellationToken);

    /// <summary>Renews claims for another time limit.</summary>
    /// <returns>The claims that had ended.</returns>
    Task<IReadOnlyList<Claim>> RenewAsync(NpgsqlConnection connection, IReadOnlyList<Claim> held, CancellationToken cancellationToken);

    /// <summary>Gives back the messages of ended claims, makes due messages ready, deletes dead rows past their retention, and looks for work; in one statement, because an idle receiver runs it at each poll.</summary>
    Task<UpkeepReport> UpkeepAsync(NpgsqlConnection connection, CancellationToken cancellationToken);
}

/// <summary>A worker's time-limited hold on a batch of messages. The outcomes are marked on the messages.</summary>
internal sealed class Claim
{
    private HandlerTransaction? _transaction;
    private bool _isGivenUp;

    public Claim(IClaimStore store, long token, int shard, QueueBatch batch)
    {
        (Store, Token, Shard, Batch, Readable) = (store, token, shard, batch, batch.WithoutWithheld());
        if (Readable is not null)
            Readable.Claim = this;
    }

    /// <summary>Where it is held.</summary>
    public IClaimStore Store { get; }

    /// <summary>The row in <c>claims</c> for a queue without order; the shard's epoch for an ordered one. A statement with an old token changes nothing.</summary>
    public long Token { get; }

    /// <summary>The shard, in an ordered queue; -1 otherwise.</summary>
    public int Shard { get; }

    /// <summary>All messages, which are settled together.</summary>
    public QueueBatch Batch { get; }

    /// <summary>The bytes of all payloads and headers, which the server moves.</summary>
    public long Bytes => Batch.Sum(static message => (long)message.Payload.Length + (message.StoredHeader?.Length ?? 0));

    /// <summary>The messages for the handler; null when it gets none. The others are marked already.</summary>
    public QueueBatch? Readable { get; }

    /// <summary>The transaction in which its handler has settled it last; null for none.</summary>
    public HandlerTransaction? Transaction
    {
        get => Volatile.Read(ref _transaction);
        set => Interlocked.Exchange(ref _transaction, value);
    }

    /// <summary>True once its handler no longer counts. Either its handler sees that behind the transaction that it has set, or whoever set this sees the transaction.</summary>
    public bool IsGivenUp => Volatile.Read(ref _isGivenUp);

    public void GiveUp() => Interlocked.Exchange(ref _isGivenUp, true);

    /// <summary>True when there are probably more messages, for another worker to claim.</summary>
    public bool HasMore { get; init; }

    /// <summary>Marks the messages as its handler's transaction has left them.</summary>
    public void EndTransaction(bool isCommitted)
    {
        for (var index = 0; index < Batch.Count; index++)
            Batch[index].EndTransaction(isCommitted ? Transaction!.Outcomes[index] : null, isCommitted);
    }
}

/// <summary>A transaction in which a handler has settled its claim. It may be under way, committed or rolled back.</summary>
/// <param name="Id">Its number.</param>
/// <param name="Outcomes">How the messages were marked then.</param>
internal sealed record HandlerTransaction(ulong Id, MessageOutcome?[] Outcomes)
{
    /// <summary>The reason for which its messages are retried.</summary>
    public const string RolledBack = "The transaction in which the handler completed the message was rolled back.";
}

/// <summary>Messages of one queue that were claimed together, in order: the batch of a handler.</summary>
internal sealed class QueueBatch(QueueMessage[] messages) : IReadOnlyList<QueueMessage>
{
    public int Count => messages.Length;

    public QueueMessage this[int index] => messages[index];

    /// <summary>The claim whose handler gets it; null for a batch that no handler gets.</summary>
    public Claim? Claim { get; set; }

    /// <summary>Returns the messages for the handler; null when there are none.</summary>
    public QueueBatch? WithoutWithheld()
    {
        if (!Array.Exists(messages, static message => message.IsWithheld))
            return this;
        var rest = Array.FindAll(messages, static message => !message.IsWithheld);
        return rest.Length == 0 ? null : new QueueBatch(rest);
    }

    public IEnumerator<QueueMessage> GetEnumerator() => ((IEnumerable<QueueMessage>)messages).GetEnumerator();

    IEnumerator IEnumerable.GetEnumerator() => messages.GetEnumerator();
}

/// <summary>A request for claims.</summary>
/// <param name="Claims">The maximum number of claims; 0 only settles.</param>
/// <param name="Retries">How many of them are failed messages that are due, each in a batch of its own, before fresh ones. Workers alternate, so that neither starves.</param>
internal readonly record struct ClaimRequest(int Claims, int Retries)
{
    /// <summary>Names the exchange in the database. Random, not from a sequence: after a crash or fail-over a sequence may repeat values, and a new claim would get a lost claim's token.</summary>
    public long Token { get; init; } = Random.Shared.NextInt64();

    /// <summary>True when an exchange with this token was sent before and its answer is unknown.</summary>
    public bool IsRepeat { get; init; }
}

/// <summary>The result of an exchange.</summary>
/// <param name="Taken">The new claims; empty when there is no work.</param>
/// <param name="Refused">The claims that could not be settled because they had ended; other workers handle their messages.</param>
internal readonly record struct ClaimExchange(IReadOnlyList<Claim> Taken, IReadOnlyList<Claim> Refused);

/// <summary>The result of an upkeep.</summary>
/// <param name="HasWork">True when a message can be claimed now.</param>
/// <param name="Returned">How many messages of ended claims went back into the queue.</param>
/// <param name="Buried">How many messages of ended claims went to the dead table, because it was their last attempt.</param>
/// <param name="NextDue">The time until the next delayed message is due; null when there is none.</param>
internal readonly record struct UpkeepReport(bool HasWork, int Returned, int Buried, TimeSpan? NextDue);

/// <summary>All claims that a receiver holds now. Thread-safe.</summary>
internal sealed class HeldClaims(TimeProvider timeProvider, TimeSpan timeLimit, Intake intake)
{
    // Guards the set.
    private readonly Lock _lock = new();
    private readonly HashSet<HeldClaim> _held = [];

    /// <summary>How many handlers have run for longer than this.</summary>
    public int CountHandling(TimeSpan limit)
    {
        lock (_lock)
            return _held.Count(held => held.HandlingSince is { } since && timeProvider.GetElapsedTime(since) > limit);
    }

    public HeldClaim Add(Claim claim, long claimedAt)
    {
        var held = new HeldClaim(claim, claimedAt);
        intake.Enter();
        lock (_lock)
            _held.Add(held);
        return held;
    }

    public void Remove(HeldClaim held)
    {
        lock (_lock)
        {
            if (!_held.Remove(held))
                return;
        }

        held.Dispose();
        intake.Leave();
    }

    public List<HeldClaim> Snapshot()
    {
        lock (_lock)
            return [.. _held];
    }

    /// <summary>The time until a claim ends by this process's clock, unless it is renewed. By the server's clock it ends slightly later.</summary>
    public TimeSpan Left(HeldClaim held) => timeLimit - timeProvider.GetElapsedTime(held.RenewedAt);

    /// <summary>Cancels all handlers.</summary>
    public void Cancel() => Snapshot().ForEach(static held => held.Cancel());
}

/// <summary>A claim that this process holds, with its handler's cancellation.</summary>
internal sealed class HeldClaim(Claim claim, long claimedAt) : IDisposable
{
    private const long NotHandling = -1;

    // Keeps the source from being cancelled after its disposal.
    private readonly Lock _lock = new();
    private readonly CancellationTokenSource _cancellation = new();
    private bool _isDisposed;
    private volatile bool _isLost;
    private volatile bool _isTimedOut;
    private volatile bool _isSettling;
    private long _renewedAt = claimedAt;
    private long _handlingSince = NotHandling;

    public Claim Claim { get; private set; } = claim;

    /// <summary>The time stamp, by this process's clock, of the request that returned the claim.</summary>
    public long ClaimedAt { get; } = claimedAt;

    /// <summary>Cancelled when the claim is lost, or the receiver no longer waits for its handler.</summary>
    public CancellationToken Token => _cancellation.Token;

    /// <summary>The time stamp, by this process's clock, of the last request that renewed the claim.</summary>
    public long RenewedAt
    {
        get => Volatile.Read(ref _renewedAt);
        set => Volatile.Write(ref _renewedAt, value);
    }

    /// <summary>The time stamp at which its handler began; null while none runs.</summary>
    public long? HandlingSince
    {
        get => Volatile.Read(ref _handlingSince) is >= 0 and var since ? since : null;
        set => Volatile.Write(ref _handlingSince, value ?? NotHandling);
    }

    public bool IsLost => _isLost;

    /// <summary>True once its handler was cancelled because it ran longer than <see cref="PostgresQueueReceiverOptions.HandlerTimeLimit"/>.</summary>
    public bool IsTimedOut => _isTimedOut;

    /// <summary>True once its settlement is being sent. From then on the server may have removed the claim, which does not count as a loss.</summary>
    public bool IsSettling
    {
        get => _isSettling;
        set => _isSettling = value;
    }

    public void Lose()
    {
        _isLost = true;
        Cancel();
    }

    public void TimeOut()
    {
        _isTimedOut = true;
        Cancel();
    }

    /// <summary>Cancels the handler. Does not wait for the handler's callbacks, which may hang or throw: renewal and a stop go on.</summary>
    public void Cancel()
    {
        lock (_lock)
        {
            if (!_isDisposed)
                _ = CancelAsync(_cancellation);
        }
    }

    /// <summary>Marks all its messages, on copies, because a handler that does not end may still mark the originals.</summary>
    public void MarkCopies(Action<QueueMessage> mark)
    {
        Claim.GiveUp();
        var batch = Claim.Batch;
        var copies = new QueueMessage[batch.Count];
        for (var index = 0; index < copies.Length; index++)
        {
            var message = batch[index];
            if (message.IsWithheld)
            {
                copies[index] = message;
                continue;
            }

            copies[index] = new QueueMessage(message.Handle, message.Id, message.Attempt, message.Priority, message.EnqueuedAt, message.Key, message.Header, message.Payload) { StoredHeader = message.StoredHeader };
            mark(copies[index]);
        }

        Claim = new Claim(Claim.Store, Claim.Token, Claim.Shard, new QueueBatch(copies)) { Transaction = Claim.Transaction };
    }

    public void Dispose()
    {
        lock (_lock)
        {
            _isDisposed = true;
            _cancellation.Dispose();
        }
    }

    private static async Task CancelAsync(CancellationTokenSource cancellation) => await cancellation.CancelAsync().ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
}

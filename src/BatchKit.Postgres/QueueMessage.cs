using System.Collections.Immutable;
using System.Diagnostics;
using System.Globalization;
using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Sending;

namespace BatchKit.Postgres;

/// <summary>A message of a queue, which its handler completes, retries or refuses.</summary>
/// <remarks>
/// A handler that implements <c>IMessageHandler&lt;QueueMessage&gt;</c> gets it; one that implements <see cref="IMessageHandler"/> gets it as a <see cref="ReceivedMessage"/>. Call one of <see cref="Complete"/>, <see cref="Retry"/> or
/// <see cref="Refuse"/>; the last call wins. A message that is not marked is completed when the handler's task completes. When the handler throws, it is retried after a pause, in a batch of its own. Not thread-safe. It is valid while the handler of its batch runs.
/// </remarks>
public sealed class QueueMessage : ReceivedMessage
{
    private readonly string? _key;

    internal QueueMessage(OutputHandle queue, long id, int attempt, int priority, DateTimeOffset enqueuedAt, string? key, MessageHeader? header, ReadOnlyMemory<byte> payload)
        : base(queue, payload, header)
    {
        Id = id;
        Attempt = attempt;
        Priority = priority;
        EnqueuedAt = enqueuedAt;
        _key = key;
    }

    /// <summary>Its number in the schema. Numbers rise in the order of insertion; a retried message keeps its number.</summary>
    public long Id { get; }

    /// <summary>The number of this attempt, from 1.</summary>
    public int Attempt { get; }

    /// <summary>Its priority; messages with a higher priority are claimed first. 0 by default.</summary>
    public int Priority { get; }

    /// <summary>When it was enqueued, by the server's clock.</summary>
    public DateTimeOffset EnqueuedAt { get; }

    /// <summary>The key that it was enqueued with; null for none.</summary>
    public override string? Key => _key ?? base.Key;

    /// <summary>Its header in the table; null when the row has none.</summary>
    internal byte[]? StoredHeader { get; init; }

    /// <summary>The span of its send; the default for none.</summary>
    internal ActivityContext Trace { get; init; }

    /// <summary>How the handler marked it; null when it did not.</summary>
    internal MessageOutcome? Outcome { get; private set; }

    /// <summary>The reason that the table stores; null unless it failed.</summary>
    internal string? Reason { get; private set; }

    /// <summary>How long to wait before it is handled again; null leaves the pause to the receiver.</summary>
    internal TimeSpan? RetryDelay { get; private set; }

    /// <summary>Marks it as handled: it is deleted.</summary>
    public void Complete() => Mark(MessageOutcome.Done, reason: null, delay: null);

    /// <summary>Marks it as failed: it is handled again, or moved to the dead table when this was its last attempt.</summary>
    /// <param name="reason">The reason, which the table stores, shortened to 4,000 characters.</param>
    /// <param name="delay">The pause before it is handled again, at most 3,650 days; null, the default, uses <see cref="PostgresQueueReceiverOptions.RetryDelay"/>.</param>
    /// <exception cref="ArgumentOutOfRangeException">The delay is negative.</exception>
    public void Retry(string reason, TimeSpan? delay = null)
    {
        ArgumentNullException.ThrowIfNull(reason);
        if (delay is { } time)
            ArgumentOutOfRangeException.ThrowIfLessThan(time, TimeSpan.Zero, nameof(delay));
        Mark(MessageOutcome.Retry, reason, delay);
    }

    /// <summary>Refuses it: it is moved to the dead table.</summary>
    /// <param name="reason">The reason, which the table stores, shortened to 4,000 characters.</param>
    public override void Refuse(string reason)
    {
        base.Refuse(reason);
        Mark(MessageOutcome.Dead, reason, delay: null);
    }

    /// <summary>True for a message that the handler does not get, because its header can't be read, or because it follows such a message with the same key.</summary>
    internal bool IsWithheld { get; private set; }

    /// <summary>Marks it as not handled: it goes back into the queue unchanged, and is claimed again after the delay.</summary>
    internal void Release(TimeSpan? delay = null) => Mark(MessageOutcome.Released, reason: null, delay);

    /// <summary>Marks it as a transaction of its handler has left it: as it was marked in one that is committed, and as failed in another one, if it is completed.</summary>
    internal void EndTransaction(MessageOutcome? outcome, bool isCommitted)
    {
        if (isCommitted)
            Outcome = outcome;
        else if (Outcome is null or MessageOutcome.Done)
            Retry(HandlerTransaction.RolledBack);
    }

    /// <summary>Keeps it from the handler, for a process that can read it.</summary>
    internal void Withhold(TimeSpan? delay)
    {
        IsWithheld = true;
        Release(delay);
    }

    /// <summary>Keeps it from the handler, and gives it up.</summary>
    internal void Withhold(string reason)
    {
        IsWithheld = true;
        Refuse(reason);
    }

    /// <summary>Reads typed messages by this codec.</summary>
    internal void UseCodec(IMessageCodec codec) => Codec = codec;

    private void Mark(MessageOutcome outcome, string? reason, TimeSpan? delay)
    {
        RefusalReason = outcome == MessageOutcome.Dead ? reason : null;
        Outcome = outcome;
        Reason = reason;
        RetryDelay = delay;
    }
}

/// <summary>The outcome of a claimed message.</summary>
internal enum MessageOutcome
{
    /// <summary>Handled: it is deleted.</summary>
    Done = 0,

    /// <summary>Failed: it is handled again, with another attempt counted.</summary>
    Retry = 1,

    /// <summary>Given up: it is moved to the dead table.</summary>
    Dead = 2,

    /// <summary>Not handled: it goes back into the queue, and no attempt is counted.</summary>
    Released = 3,
}

/// <summary>How long a message keeps its uniqueness key from others of its queue.</summary>
public enum UniqueScope
{
    /// <summary>Until it is completed or dead. What arrives with its key while it waits, is handled or waits for its next attempt is dropped.</summary>
    Unsettled = 0,

    /// <summary>
    /// Until a worker claims it: one message waits beside those that are being handled, so that none is dropped that came too late for them. An ordered queue handles messages with the same <see cref="MessageHeader.Key"/> one after another;
    /// one without order may handle them at the same time. A message that failed or was given back waits without the key, and is not dropped. A process of an earlier version of this package keeps the key as with <see cref="Unsettled"/>.
    /// </summary>
    Waiting = 1,
}

/// <summary>Creates headers with what a queue in PostgreSQL supports: a delay, a priority, a uniqueness key and an ordering key.</summary>
/// <remarks>Delay, priority, uniqueness key and its scope are <see cref="MessageHeader.Properties"/>, so you can set them yourself, and other transports carry them too.</remarks>
public static class QueueMessageHeader
{
    /// <summary>The name of the property with the delay in milliseconds.</summary>
    public const string DelayProperty = "batchkit-delay";

    /// <summary>The name of the property with the priority, from -32,767 to 32,767; higher priorities are claimed first.</summary>
    public const string PriorityProperty = "batchkit-priority";

    /// <summary>The name of the property with the uniqueness key.</summary>
    public const string UniqueKeyProperty = "batchkit-unique-key";

    /// <summary>The name of the property with the scope of the uniqueness key, <c>unsettled</c> or <c>waiting</c>; see <see cref="UniqueScope"/>.</summary>
    public const string UniqueScopeProperty = "batchkit-unique-scope";

    internal const string Unsettled = "unsettled";
    internal const string Waiting = "waiting";

    /// <summary>Creates a header. You may use it for any number of messages.</summary>
    /// <param name="delay">How long to wait before the message may be handled, at most 36,500 days; none by default. In an ordered queue, later messages with its key wait too.</param>
    /// <param name="priority">Higher priorities are claimed first; 0 by default, from -32,767 to 32,767. Ordered queues ignore it.</param>
    /// <param name="uniqueKey">While a message with this key waits in the queue or is being handled, further messages with it are dropped; none by default. 1 to 1,024 UTF-8 bytes.</param>
    /// <param name="key">An ordered queue keeps messages with the same key in order; none by default. At most <see cref="MessageHeader.MaxTextBytes"/>.</param>
    /// <param name="uniqueScope">How long the message keeps the key from others; until it is settled by default.</param>
    /// <exception cref="ArgumentException">PostgreSQL can't store a key: it is too long, or has NUL or half of a surrogate pair.</exception>
    /// <exception cref="ArgumentOutOfRangeException">A value is outside its range.</exception>
    public static MessageHeader Create(TimeSpan? delay = null, int priority = 0, string? uniqueKey = null, string? key = null, UniqueScope uniqueScope = UniqueScope.Unsettled)
    {
        if (delay is { } time)
        {
            ArgumentOutOfRangeException.ThrowIfLessThan(time, TimeSpan.Zero, nameof(delay));
            ArgumentOutOfRangeException.ThrowIfGreaterThan(time, TimeSpan.FromMilliseconds(RowHeader.MaxDelayMilliseconds), nameof(delay));
        }

        if (uniqueKey is not null && QueueLimits.RefuseQueue(uniqueKey) is { } uniqueKeyReason)
            throw new ArgumentException($"The uniqueness key {uniqueKeyReason}", nameof(uniqueKey));
        if (!string.IsNullOrEmpty(key) && QueueLimits.RefuseKey(key) is { } keyReason)
            throw new ArgumentException($"The key {keyReason}", nameof(key));
        ArgumentOutOfRangeException.ThrowIfGreaterThan(Math.Abs((long)priority), short.MaxValue, nameof(priority));
        if (uniqueScope is not (UniqueScope.Unsettled or UniqueScope.Waiting))
            throw new ArgumentOutOfRangeException(nameof(uniqueScope), uniqueScope, $"It must be {nameof(UniqueScope.Unsettled)} or {nameof(UniqueScope.Waiting)}.");
        var properties = ImmutableArray.CreateBuilder<KeyValuePair<string, string>>(4);
        if (delay is { } wait && wait > TimeSpan.Zero)
            properties.Add(new(DelayProperty, ((long)Math.Ceiling(wait.TotalMilliseconds)).ToString(CultureInfo.InvariantCulture)));
        if (priority != 0)
            properties.Add(new(PriorityProperty, priority.ToString(CultureInfo.InvariantCulture)));
        if (uniqueKey is not null)
            properties.Add(new(UniqueKeyProperty, uniqueKey));
        if (uniqueKey is not null && uniqueScope == UniqueScope.Waiting)
            properties.Add(new(UniqueScopeProperty, Waiting));
        return new MessageHeader { Key = key, Properties = properties.ToImmutable() };
    }
}

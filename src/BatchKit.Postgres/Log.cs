using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.Postgres;

/// <summary>The log messages of this package; ids start at 2600.</summary>
internal static partial class Log
{
    public static void ConnectionsDropped(ILogger logger, LogThrottle throttle, string target, string state, string reason)
    {
        if (throttle.TryBegin(2600, state, amount: 1, out var events))
            ConnectionsWereDropped(logger, target, reason, events.Count);
    }

    public static void HandlerTimedOut(ILogger logger, LogThrottle throttle, string queue, int messages, string limit)
    {
        if (throttle.TryBegin(2635, queue, messages, out var events))
            HandlersTimedOut(logger, events.Count, queue, limit, events.Amount);
    }

    public static void HandlerLeft(ILogger logger, LogThrottle throttle, string queue, int messages, string limit)
    {
        if (throttle.TryBegin(2636, queue, messages, out var events))
            HandlersLeft(logger, events.Count, queue, limit, events.Amount);
    }

    [LoggerMessage(2600, LogLevel.Warning, "{Target} did not accept a send: {Reason} The pool's connections were closed, so the next send connects to the server that is writable now. Such failures since the last such line: {Count}.")]
    private static partial void ConnectionsWereDropped(ILogger logger, string target, string reason, long count);

    [LoggerMessage(2601, LogLevel.Warning, "Notifying the receivers of schema {Schema} failed: {Reason} It is retried; until then they poll.")]
    public static partial void NotifyingFailed(ILogger logger, string schema, string reason);

    [LoggerMessage(2602, LogLevel.Information, "Notifying the receivers of schema {Schema} works again, after {Failures} failed attempts.")]
    public static partial void NotifyingAgain(ILogger logger, string schema, int failures);

    [LoggerMessage(2610, LogLevel.Warning, "Listening for notifications of schema {Schema} ended: {Reason} The receivers reconnect; until then they poll.")]
    public static partial void ListeningEnded(ILogger logger, string schema, string reason);

    [LoggerMessage(2611, LogLevel.Information, "Listening for notifications of schema {Schema} works again, after {Failures} failed attempts.")]
    public static partial void ListeningAgain(ILogger logger, string schema, int failures);

    [LoggerMessage(2620, LogLevel.Information, "Receiving from queue {Queue}, up to {Concurrency} batches at a time.")]
    public static partial void Receiving(ILogger logger, string queue, int concurrency);

    [LoggerMessage(2621, LogLevel.Warning, "Receiving from queue {Queue} failed: {Reason} The receiver tries again.")]
    public static partial void ServerFailed(ILogger logger, string queue, string reason);

    [LoggerMessage(2622, LogLevel.Information, "Receiving from queue {Queue} works again.")]
    public static partial void ServerWorks(ILogger logger, string queue);

    [LoggerMessage(2623, LogLevel.Error, "Nothing is received from queue {Queue}: {Reason}")]
    public static partial void ShardsMismatched(ILogger logger, string queue, string reason);

    [LoggerMessage(2624, LogLevel.Warning, "The pool has {PoolSize} connections; the receiver of queue {Queue} needs {Needed}.")]
    public static partial void PoolTooSmall(ILogger logger, string queue, int poolSize, int needed);

    [LoggerMessage(2625, LogLevel.Warning, "The handler of queue {Queue} failed with a batch of {Messages}; messages that it had not marked are handled again, each in a batch of its own.")]
    public static partial void HandlerFailed(ILogger logger, Exception exception, string queue, int messages);

    [LoggerMessage(2626, LogLevel.Warning, "A claim of {Messages} messages of queue {Queue} was lost: {Reason}. Their handler was cancelled.")]
    public static partial void ClaimLost(ILogger logger, string queue, int messages, string reason);

    [LoggerMessage(2627, LogLevel.Warning, "The outcome of {Messages} messages of queue {Queue} was refused: their claim had ended.")]
    public static partial void SettlementRefused(ILogger logger, string queue, int messages);

    [LoggerMessage(2628, LogLevel.Warning, "Claims on queue {Queue} reached their time limit: {Returned} messages are handled again, {Buried} had used their last attempt and are in the dead table.")]
    public static partial void ClaimsEnded(ILogger logger, string queue, int returned, int buried);

    [LoggerMessage(2629, LogLevel.Warning, "The handler of queue {Queue} did not end when the stop cancelled it; its {Messages} messages were given back.")]
    public static partial void HandlerAbandoned(ILogger logger, string queue, int messages);

    [LoggerMessage(2641, LogLevel.Error, "A handler of queue {Queue} blocks its thread. The receiver stopped without it; its messages are handled again when the claim ends.")]
    public static partial void StopGivenUp(ILogger logger, string queue);

    [LoggerMessage(2630, LogLevel.Warning, "Queue {Queue} was lost: its tables were dropped, restored, migrated or re-created. Its handlers were cancelled, and it is looked up again.")]
    public static partial void QueueLost(ILogger logger, string queue);

    [LoggerMessage(2631, LogLevel.Warning, "{Messages} messages of queue {Queue} were written by a newer version of this package. They are left for a process that can read them; update this one. This is logged once.")]
    public static partial void NewerMessages(ILogger logger, string queue, int messages);

    [LoggerMessage(2632, LogLevel.Error, "The headers of {Messages} messages of queue {Queue} can't be read; the messages were moved to the dead table.")]
    public static partial void HeadersMalformed(ILogger logger, string queue, int messages);

    [LoggerMessage(2633, LogLevel.Warning, "Frame {Id} was written by a newer version of this package. It and the frames after it are left for a process that can read it; after {Limit} it is moved to the dead table.")]
    public static partial void NewerFrame(ILogger logger, long id, TimeSpan limit);

    [LoggerMessage(2634, LogLevel.Error, "Frame {Id} was written by a newer version of this package, and no process that can read it has taken it within {Limit}; it was moved to the dead table.")]
    public static partial void NewerFrameBuried(ILogger logger, long id, TimeSpan limit);

    [LoggerMessage(2635, LogLevel.Warning, "{Count} handlers of queue {Queue} were cancelled at {Limit}; for their {Messages} messages it was a failed attempt.")]
    private static partial void HandlersTimedOut(ILogger logger, long count, string queue, string limit, long messages);

    [LoggerMessage(2636, LogLevel.Error, "{Count} handlers of queue {Queue} did not end at {Limit}, and ignored their token: they were given up and still run. For their {Messages} messages it was a failed attempt.")]
    private static partial void HandlersLeft(ILogger logger, long count, string queue, string limit, long messages);

    [LoggerMessage(2637, LogLevel.Warning, "{Count} messages of queue {Queue} were moved to the dead table; the last one because: {Reason}")]
    public static partial void MessagesDied(ILogger logger, long count, string queue, string reason);

    [LoggerMessage(2638, LogLevel.Information, "The receiver of queue {Queue} was paused: it claims nothing until it is resumed.")]
    public static partial void Paused(ILogger logger, string queue);

    [LoggerMessage(2639, LogLevel.Information, "The receiver of queue {Queue} was resumed.")]
    public static partial void Resumed(ILogger logger, string queue);

    [LoggerMessage(2640, LogLevel.Warning, "Queue {Queue}: {Reason}")]
    public static partial void HandlersSlow(ILogger logger, string queue, string reason);

    [LoggerMessage(2645, LogLevel.Error, "{Messages} messages of queue {Queue} failed {MaxAttempts} times or more and block their keys; they are retried every {Pause}.")]
    public static partial void KeysBlocked(ILogger logger, string queue, int messages, int maxAttempts, TimeSpan pause);

    [LoggerMessage(2660, LogLevel.Warning, "Outbox {Outbox} could not forward {Batches} batches: attempt {Attempts} failed, the next one is in {Delay}.")]
    public static partial void ForwardingFailed(ILogger logger, string outbox, int batches, int attempts, TimeSpan delay, Exception exception);

    [LoggerMessage(2661, LogLevel.Information, "Outbox {Outbox} forwards again, after {Failures} failed attempts.")]
    public static partial void ForwardingWorks(ILogger logger, string outbox, int failures);

    [LoggerMessage(2662, LogLevel.Error, "Outbox {Outbox}: the transport refused {Batches} batches; their rows are in the dead table.")]
    public static partial void StoredBatchesRefused(ILogger logger, string outbox, int batches, Exception exception);

    [LoggerMessage(2663, LogLevel.Error, "Outbox {Outbox}: row {Id} is not a frame and was moved to the dead table: {Reason}")]
    public static partial void StoredFrameMalformed(ILogger logger, string outbox, long id, string reason);

    [LoggerMessage(2664, LogLevel.Error, "Outbox {Outbox}: the transport failed with row {Id} for {Limit} while it accepted others; the row was moved to the dead table.")]
    public static partial void StoredRowGivenUp(ILogger logger, string outbox, long id, TimeSpan limit, Exception exception);
}

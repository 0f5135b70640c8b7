using System.Collections.Concurrent;
using System.Collections.Immutable;
using BatchKit.Transports;

namespace BatchKit.Testing;

/// <summary>Passes sends on to another transport, except those that the test's script makes fail, refuse or stall. Each step serves one send.</summary>
/// <param name="next">Gets what is passed on.</param>
/// <param name="sendsWithoutBlocking">What it declares.</param>
public sealed class ScriptedTransport(IBatchTransport next, bool sendsWithoutBlocking = false) : IBatchTransport
{
    private readonly ConcurrentQueue<Func<ReadOnlyMemory<MessageBatch>, CancellationToken, ValueTask>> _steps = new();
    private volatile Func<MessageBatch, bool>? _isRefused;
    private int _sends;
    private int _sendsUnderWay;
    private int _mostSendsUnderWay;

    /// <inheritdoc/>
    public bool SendsWithoutBlocking { get; } = sendsWithoutBlocking;

    /// <inheritdoc/>
    public int MaxMessageBytes => next.MaxMessageBytes;

    /// <summary>How many sends were begun.</summary>
    public int Sends => Volatile.Read(ref _sends);

    /// <summary>The most sends that were under way at one time.</summary>
    public int MostSendsUnderWay => Volatile.Read(ref _mostSendsUnderWay);

    /// <summary>The next steps pass on.</summary>
    public ScriptedTransport Pass(int sends = 1) => Repeat(sends, next.SendAsync);

    /// <summary>The next steps fail, with nothing passed on.</summary>
    public ScriptedTransport Fail(int sends = 1, Exception? exception = null) =>
        Repeat(sends, (_, _) => throw exception ?? new IOException("The script says that this send fails."));

    /// <summary>The next steps pass on and fail all the same, as when a confirm is lost.</summary>
    public ScriptedTransport FailAfterPassing(int sends = 1) => Repeat(sends, async (batches, cancellationToken) =>
    {
        await next.SendAsync(batches, cancellationToken).ConfigureAwait(false);
        throw new IOException("The script says that this send's acknowledgement is lost.");
    });

    /// <summary>The next step passes on the acknowledged batches and throws these outcomes.</summary>
    public ScriptedTransport Answer(params ImmutableArray<BatchOutcome> outcomes) =>
        Repeat(1, (batches, cancellationToken) => AnswerAsync(batches, outcomes, cancellationToken));

    /// <summary>The next step does what the test says.</summary>
    public ScriptedTransport Then(Func<ReadOnlyMemory<MessageBatch>, CancellationToken, ValueTask> step) => Repeat(1, step);

    /// <summary>The next step waits until the test lets it go on.</summary>
    /// <param name="ignoresCancellation">When true, cancelling the send has no effect until it is let go, as with a hop that hangs.</param>
    public StalledSend Stall(bool ignoresCancellation = false)
    {
        var stalled = new StalledSend(next, ignoresCancellation);
        _steps.Enqueue(stalled.SendAsync);
        return stalled;
    }

    /// <summary>From now on, a send that no step serves refuses these batches and passes on the others.</summary>
    public void RefuseWhere(Func<MessageBatch, bool> isRefused) => _isRefused = isRefused;

    /// <inheritdoc/>
    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        Interlocked.Increment(ref _sends);
        var underWay = Interlocked.Increment(ref _sendsUnderWay);
        InterlockedMax(ref _mostSendsUnderWay, underWay);
        try
        {
            await NextStep(batches)(batches, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            Interlocked.Decrement(ref _sendsUnderWay);
        }
    }

    private static void InterlockedMax(ref int target, int value)
    {
        var seen = Volatile.Read(ref target);
        while (seen < value)
        {
            var before = Interlocked.CompareExchange(ref target, value, seen);
            if (before == seen)
                return;
            seen = before;
        }
    }

    private Func<ReadOnlyMemory<MessageBatch>, CancellationToken, ValueTask> NextStep(ReadOnlyMemory<MessageBatch> batches)
    {
        if (_steps.TryDequeue(out var step))
            return step;
        if (_isRefused is not { } isRefused || !batches.ToArray().Any(isRefused))
            return next.SendAsync;
        ImmutableArray<BatchOutcome> outcomes =
            [.. batches.ToArray().Select(batch => isRefused(batch) ? BatchOutcome.Refused : BatchOutcome.Acknowledged)];
        return (all, cancellationToken) => AnswerAsync(all, outcomes, cancellationToken);
    }

    private async ValueTask AnswerAsync(ReadOnlyMemory<MessageBatch> batches, ImmutableArray<BatchOutcome> outcomes, CancellationToken cancellationToken)
    {
        var acknowledged = batches.ToArray().Where((_, index) => index < outcomes.Length && outcomes[index] == BatchOutcome.Acknowledged).ToArray();
        if (acknowledged.Length > 0)
            await next.SendAsync(acknowledged, cancellationToken).ConfigureAwait(false);
        throw new BatchSendException(outcomes, "The script says what became of each batch.");
    }

    private ScriptedTransport Repeat(int sends, Func<ReadOnlyMemory<MessageBatch>, CancellationToken, ValueTask> step)
    {
        for (var count = 0; count < sends; count++)
            _steps.Enqueue(step);
        return this;
    }
}

/// <summary>A send that waits until the test lets it go on.</summary>
public sealed class StalledSend
{
    private readonly IBatchTransport _next;
    private readonly TaskCompletionSource _entered = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly TaskCompletionSource _released = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly bool _ignoresCancellation;

    internal StalledSend(IBatchTransport next, bool ignoresCancellation)
    {
        _next = next;
        _ignoresCancellation = ignoresCancellation;
    }

    /// <summary>Completes when the send has begun; throws at a test's deadline.</summary>
    public Task EnteredAsync() => _entered.Task.WithinDeadline();

    /// <summary>Lets it pass on and complete.</summary>
    public void Release() => _released.TrySetResult();

    /// <summary>Lets it fail, with nothing passed on.</summary>
    public void Fail(Exception? exception = null) =>
        _released.TrySetException(exception ?? new IOException("The script says that this stalled send fails."));

    internal async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        _entered.TrySetResult();
        await _released.Task.WaitAsync(_ignoresCancellation ? CancellationToken.None : cancellationToken).ConfigureAwait(false);
        await _next.SendAsync(batches, cancellationToken).ConfigureAwait(false);
    }
}

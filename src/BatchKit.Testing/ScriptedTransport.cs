using System.Collections.Concurrent;
using System.Collections.Immutable;
using BatchKit.Transports;

namespace BatchKit.Testing;

/// <summary>Passes sends on to another transport, except those that the test's script makes fail, stall or refuse a batch.</summary>
/// <remarks>
/// The script is a queue of steps. Each send takes the next step; when none is left, sends pass on. Add steps before the send, from any thread, and chain them:
/// <c>transport.Fail(sends: 2).Pass().FailAfterPassing()</c>.
/// </remarks>
/// <param name="next">Gets what is passed on. The caller owns it.</param>
/// <param name="sendsWithoutBlocking">The transport's <see cref="IBatchTransport.SendsWithoutBlocking"/>; false by default.</param>
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

    /// <inheritdoc/>
    public int MaxBatchBytes => next.MaxBatchBytes;

    /// <inheritdoc/>
    public int MaxSendBytes => next.MaxSendBytes;

    /// <inheritdoc/>
    public FrameDestination GetDestination(OutputHandle handle) => next.GetDestination(handle);

    /// <inheritdoc/>
    public string? LimitingSetting => next.LimitingSetting;

    /// <summary>How many sends have begun.</summary>
    public int Sends => Volatile.Read(ref _sends);

    /// <summary>The most sends that were under way at the same time.</summary>
    public int MostSendsUnderWay => Volatile.Read(ref _mostSendsUnderWay);

    /// <summary>Adds steps that pass the send on.</summary>
    /// <param name="sends">How many steps.</param>
    /// <returns>This transport.</returns>
    public ScriptedTransport Pass(int sends = 1) => Repeat(sends, next.SendAsync);

    /// <summary>Adds steps that fail and pass nothing on.</summary>
    /// <param name="sends">How many steps.</param>
    /// <param name="exception">What they throw; an <see cref="IOException"/> by default.</param>
    /// <returns>This transport.</returns>
    public ScriptedTransport Fail(int sends = 1, Exception? exception = null) =>
        Repeat(sends, (_, _) => throw exception ?? new IOException("The script says that this send fails."));

    /// <summary>Adds steps that pass the send on and then fail, as when an acknowledgement is lost.</summary>
    /// <param name="sends">How many steps.</param>
    /// <returns>This transport.</returns>
    public ScriptedTransport FailAfterPassing(int sends = 1) => Repeat(sends, async (batches, cancellationToken) =>
    {
        await next.SendAsync(batches, cancellationToken).ConfigureAwait(false);
        throw new IOException("The script says that this send's acknowledgement is lost.");
    });

    /// <summary>Adds a step that passes on the acknowledged batches and throws a <see cref="BatchSendException"/>.</summary>
    /// <param name="outcomes">The outcome of each batch of the send, in order; those behind the last are unacknowledged.</param>
    /// <returns>This transport.</returns>
    public ScriptedTransport Answer(params ImmutableArray<BatchOutcome> outcomes) =>
        Repeat(1, (batches, cancellationToken) => AnswerAsync(batches, outcomes, cancellationToken));

    /// <summary>Adds a step that does what the test wants.</summary>
    /// <param name="step">Takes the place of <see cref="SendAsync"/> for one send.</param>
    /// <returns>This transport.</returns>
    public ScriptedTransport Then(Func<ReadOnlyMemory<MessageBatch>, CancellationToken, ValueTask> step)
    {
        ArgumentNullException.ThrowIfNull(step);
        return Repeat(1, step);
    }

    /// <summary>Adds a step that waits until the test releases it.</summary>
    /// <param name="ignoresCancellation">Whether the step keeps waiting when the send is cancelled, as a next hop that hangs does.</param>
    /// <returns>The send that waits.</returns>
    public StalledSend Stall(bool ignoresCancellation = false)
    {
        var stalled = new StalledSend(next, ignoresCancellation);
        _steps.Enqueue(stalled.SendAsync);
        return stalled;
    }

    /// <summary>From now on, sends without a step refuse these batches and pass on the others.</summary>
    /// <param name="isRefused">True for a batch to refuse. It is asked once for each batch of a send.</param>
    public void RefuseWhere(Func<MessageBatch, bool> isRefused)
    {
        ArgumentNullException.ThrowIfNull(isRefused);
        _isRefused = isRefused;
    }

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
        if (_isRefused is not { } isRefused)
            return next.SendAsync;
        ImmutableArray<BatchOutcome> outcomes =
            [.. batches.ToArray().Select(batch => isRefused(batch) ? BatchOutcome.Refused : BatchOutcome.Acknowledged)];
        if (!outcomes.Contains(BatchOutcome.Refused))
            return next.SendAsync;
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

/// <summary>A step of a <see cref="ScriptedTransport"/> that waits until the test releases it.</summary>
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

    /// <summary>Completes when a send has taken this step.</summary>
    /// <exception cref="TimeoutException">None did within a minute.</exception>
    public Task EnteredAsync() => _entered.Task.WithinDeadline();

    /// <summary>Lets the send pass on and complete.</summary>
    public void Release() => _released.TrySetResult();

    /// <summary>Lets the send fail and pass nothing on.</summary>
    /// <param name="exception">What it throws; an <see cref="IOException"/> by default.</param>
    public void Fail(Exception? exception = null) =>
        _released.TrySetException(exception ?? new IOException("The script says that this stalled send fails."));

    internal async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        _entered.TrySetResult();
        await _released.Task.WaitAsync(_ignoresCancellation ? CancellationToken.None : cancellationToken).ConfigureAwait(false);
        await _next.SendAsync(batches, cancellationToken).ConfigureAwait(false);
    }
}

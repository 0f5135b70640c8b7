using BatchKit.Batches;

namespace BatchKit.Dispatch;

/// <summary>What a partition's sends tell of its route. Written by its sender, and by the time limit of its sends; read by the health check.</summary>
internal sealed class PartitionHealth(BufferSettings settings)
{
    // A few refusals come from a bad item; with more, and nothing taken between, the next hop takes nothing.
    private const int MinRefusals = 3;

    private volatile PartitionFailure? _failure;
    private volatile PartitionFailure? _refusal;
    private volatile PartitionFailure? _blocked;

    /// <summary>Why the partition cannot send now; null when it can.</summary>
    public PartitionFailure? Failure => _blocked ?? Recent(_failure);

    /// <summary>Why the next hop has refused the last sends, and taken nothing since; null when it takes some.</summary>
    public PartitionFailure? Refusal => Recent(_refusal) is { Attempts: >= MinRefusals } refusal ? refusal : null;

    public bool HasFailed => _failure is not null;

    /// <summary>How often the sender has failed since the last progress.</summary>
    public int Attempts => _failure?.Attempts ?? 0;

    /// <summary>A new send begins.</summary>
    public void Begin() => _failure = Recent(_failure);

    public void Fail(int attempts, Exception cause) => _failure = Extend(_failure, attempts, cause);

    /// <summary>The send under way does not return, although its token was cancelled.</summary>
    /// <param name="since">When it began.</param>
    /// <param name="cause">Says so.</param>
    public void Block(long since, Exception cause) => _blocked = new PartitionFailure(since, settings.Clock.Now, Attempts + 1, cause);

    /// <summary>The send that did not return has ended.</summary>
    public void Unblock() => _blocked = null;

    /// <summary>A part of a failing send has arrived.</summary>
    public void Progress()
    {
        _failure = _failure! with { Attempts = 1 };
        Acknowledge();
    }

    /// <summary>The failures are over.</summary>
    /// <returns>What they were; null when there were none.</returns>
    public PartitionFailure? Recover()
    {
        var past = _failure;
        if (past is not null)
            _failure = null;
        return past;
    }

    /// <summary>The next hop has answered to a part of a send.</summary>
    /// <param name="refusal">Why it refused some; null when it refused none that count.</param>
    /// <param name="hasProgress">True when it took some.</param>
    public void Note(Exception? refusal, bool hasProgress)
    {
        if (hasProgress)
            Acknowledge();
        else if (refusal is not null)
            _refusal = Extend(Recent(_refusal), (Recent(_refusal)?.Attempts ?? 0) + 1, refusal);
    }

    /// <summary>The next hop has taken a send.</summary>
    public void Acknowledge()
    {
        if (_refusal is not null)
            _refusal = null;
    }

    private PartitionFailure Extend(PartitionFailure? past, int attempts, Exception cause) => new(past?.Since ?? settings.Clock.Now, settings.Clock.Now, attempts, cause);

    // Null once the last attempt is longer ago than two attempts can be apart: nothing was left to send, whether the outage lasts is not known, and the next failure is a new one.
    private PartitionFailure? Recent(PartitionFailure? last) =>
        last is not null && settings.Clock.ElapsedSince(last.At) < 2 * (settings.SendTimeout + SendDeadline.Grace + settings.MaxRetryDelay) ? last : null;
}

/// <summary>Why a partition cannot send now, since when, when it tried last, and how often.</summary>
internal sealed record PartitionFailure(long Since, long At, int Attempts, Exception Cause);

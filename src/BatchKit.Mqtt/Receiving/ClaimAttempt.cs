namespace BatchKit.Mqtt.Receiving;

/// <summary>What a connection's reader has received since a claim began.</summary>
/// <remarks>
/// A holder that asks again is not refused by who claims beside it, and is about to be refused: while the broker still has the holder's claim, no one else was accepted. The broker sends what it has retained before it passes the new claim on.
/// </remarks>
/// <param name="claim">The claim.</param>
/// <param name="isHeld">True when this connection's claim was accepted before.</param>
internal sealed class ClaimAttempt(string claim, bool isHeld)
{
    private readonly TaskCompletionSource _subscribed = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly TaskCompletionSource<ClaimOutcome> _decided = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly TaskCompletionSource<string?> _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);

    // Only the connection's reader uses them.
    private string? _other;
    private bool _isPassedOn;

    public string Claim => claim;

    public bool IsHeld => isHeld;

    public Task Subscribed => _subscribed.Task;

    public Task<ClaimOutcome> Decided => _decided.Task;

    /// <summary>Completes with the holder of a claim that is older than the accepted one, or with null when another attempt should follow.</summary>
    public Task<string?> Ended => _ended.Task;

    public void Subscribe() => _subscribed.TrySetResult();

    /// <summary>The broker has passed the claim on.</summary>
    public void Accept()
    {
        _isPassedOn = true;
        _decided.TrySetResult(new ClaimOutcome(_other, Fault: null));
    }

    /// <summary>The broker still has an earlier claim of this process.</summary>
    public void Keep()
    {
        if (isHeld)
            _decided.TrySetResult(default);
    }

    public void Fail(string fault) => _decided.TrySetResult(new ClaimOutcome(Holder: null, fault));

    public void Refuse(string holder, bool isRetained)
    {
        if (isHeld && !_isPassedOn)
            _other ??= holder;
        else if (!_decided.TrySetResult(new ClaimOutcome(holder, Fault: null)) && isRetained)
            _ended.TrySetResult(holder);
    }

    public void Repeat() => _ended.TrySetResult(null);
}

/// <summary>How an attempt ended: the process that has the number, or why that is not known; neither when this process has the number.</summary>
internal readonly record struct ClaimOutcome(string? Holder, string? Fault);

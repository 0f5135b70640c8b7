namespace BatchKit.Mqtt.Receiving;

/// <summary>What a connection's reader has received since a claim began.</summary>
internal sealed class ClaimAttempt(string claim)
{
    private readonly TaskCompletionSource _subscribed = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly TaskCompletionSource<ClaimOutcome> _decided = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly TaskCompletionSource<string?> _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);

    public string Claim => claim;

    public Task Subscribed => _subscribed.Task;

    public Task<ClaimOutcome> Decided => _decided.Task;

    /// <summary>Completes with the holder of a claim that is older than the accepted one, or with null when another attempt should follow.</summary>
    public Task<string?> Ended => _ended.Task;

    public void Subscribe() => _subscribed.TrySetResult();

    public void Accept() => _decided.TrySetResult(default);

    public void Fail(string fault) => _decided.TrySetResult(new ClaimOutcome(Holder: null, fault));

    public void Refuse(string holder, bool isRetained)
    {
        if (!_decided.TrySetResult(new ClaimOutcome(holder, Fault: null)) && isRetained)
            _ended.TrySetResult(holder);
    }

    public void Repeat() => _ended.TrySetResult(null);
}

/// <summary>How an attempt ended: the process that has the number, or why that is not known; neither when this process has the number.</summary>
internal readonly record struct ClaimOutcome(string? Holder, string? Fault);

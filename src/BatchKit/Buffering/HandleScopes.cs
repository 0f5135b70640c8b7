using BatchKit.Batches;

namespace BatchKit.Buffering;

/// <summary>A handle's open scopes, in no order, and behind them its free tokens. Guarded by the handle's lock.</summary>
internal struct HandleScopes()
{
    // An array, because a linked list writes seven references for each scope; each costs the garbage collector's write barrier (1 ns).
    private HandleScopeToken[] _tokens = [];
    private int _limited;
    private int _ambient;
    private long _opened;
    private long _coveredSince;

    public int Count { get; private set; }

    /// <summary>The place of the last batch that was queued while no scope was open. The last scope to close reports the losses behind it.</summary>
    public long HeldSince { get; private set; }

    /// <summary>True while an ambient scope holds output back: its batches need their place among those of its other handles.</summary>
    public readonly bool HasAmbient => _ambient > 0;

    /// <summary>False while a scope without a limit is open: its output waits for its end.</summary>
    public readonly bool AllHaveLimits => _limited == Count;

    /// <summary>The scope that was opened last; null when none is open.</summary>
    public readonly HandleScopeToken? FindYoungest()
    {
        HandleScopeToken? youngest = null;
        foreach (var scope in _tokens.AsSpan(0, Count))
            youngest = youngest is null || scope.Version > youngest.Version ? scope : youngest;
        return youngest;
    }

    public HandleScopeToken Open(HandleBuffer owner, in ScopeOpening opening, long now, long since)
    {
        if (Count == _tokens.Length)
            Grow(owner);
        if (Count == 0)
            HeldSince = since;
        // A scope with a limit holds nothing back for long, however long it is open.
        if (AllHaveLimits)
            _coveredSince = now;
        var token = _tokens[Count++];
        token.Version = ++_opened;
        token.Opening = opening;
        token.OpenedAt = now;
        token.Since = since;
        if (opening.IsSpecial)
            CountSpecial(opening, 1);
        return token;
    }

    /// <returns>False when the scope was ended before.</returns>
    public bool TryClose(HandleScopeToken token)
    {
        token.Version = HandleScopeToken.Closed;
        if (token.Index == HandleScopeToken.Ended)
            return false;
        if (token.Opening.IsSpecial)
            CountSpecial(token.Opening, -1);
        if (token.Index != --Count)
            Swap(token, _tokens[Count]);
        return true;
    }

    /// <summary>Ends a scope that no one has closed. Its token is not reused: the owner that closes the scope later learns from it what was lost.</summary>
    public void End(HandleScopeToken token, HandleBuffer owner)
    {
        var version = token.Version;
        TryClose(token);
        _tokens[token.Index] = new HandleScopeToken(owner) { Index = token.Index };
        (token.Version, token.Index) = (version, HandleScopeToken.Ended);
    }

    /// <summary>Begins the wait of the caller that closed a scope.</summary>
    /// <remarks>
    /// While another scope holds the output, a wait could last until that scope closes. So this one reports what is known to be lost
    /// by now, and the last one to close reports the rest. A scope that was ended before waits for all that is queued.
    /// </remarks>
    public readonly FlushWaiter? BeginWaitForEndOf(HandleScopeToken token, HandleSettlement settlement)
    {
        if (token.Index == HandleScopeToken.Ended)
            return settlement.BeginWait(ReportedLosses.OfScope, token.Since, token.Since);
        return Count == 0 ? settlement.BeginWait(ReportedLosses.OfScope, token.Since, HeldSince) : settlement.BeginReport(token.Since);
    }

    /// <summary>The longest limit of the handle's own scopes; if it has none, that of the ambient scopes; null when no scope is open.</summary>
    /// <remarks>An ambient scope times what its flow writes. Only the handle can time what another flow writes, or what waited for the end of a scope without a limit.</remarks>
    public readonly TimeSpan? LongestHold()
    {
        TimeSpan? longest = null;
        TimeSpan? longestAmbient = null;
        foreach (var scope in _tokens.AsSpan(0, Count))
        {
            ref var kind = ref scope.Opening.IsAmbient ? ref longestAmbient : ref longest;
            if (kind is null || scope.Opening.MaxHold > kind)
                kind = scope.Opening.MaxHold;
        }

        return longest ?? longestAmbient;
    }

    /// <summary>Ends the scopes that are too old. A scope with a limit never is: it holds nothing back for longer than its limit.</summary>
    /// <returns>How each of them was opened; null when none was too old.</returns>
    public List<ScopeOpening>? EndExpired(HandleBuffer owner, BufferClock clock, TimeSpan maxAge)
    {
        List<ScopeOpening>? expired = null;
        for (var index = Count - 1; index >= 0; index--)
        {
            var scope = _tokens[index];
            if (scope.Opening.HasLimit || clock.AgeOf(scope.OpenedAt) <= maxAge)
                continue;
            (expired ??= []).Add(scope.Opening);
            End(scope, owner);
        }

        return expired;
    }

    /// <summary>Lets go of a handle that holds nothing and has nothing to be settled. A tick's scope may stay open for as long as the process runs, and each reconnect is a new handle.</summary>
    /// <param name="owner">The handle.</param>
    /// <param name="settlement">Its losses: the end of a scope reports them.</param>
    /// <param name="isIdleForLong">Whether it was not used for the time after which it is forgotten.</param>
    /// <returns>False while a caller's own scope covers it, or it has losses to report.</returns>
    public bool TryEndUnused(HandleBuffer owner, HandleSettlement settlement, bool isIdleForLong)
    {
        if (Count == 0)
            return isIdleForLong || !settlement.HasUnreportedLoss;
        if (!isIdleForLong || !AllHaveLimits || _ambient != Count || settlement.HasLossBehind(HeldSince))
            return false;
        while (Count > 0)
            End(_tokens[Count - 1], owner);
        return true;
    }

    /// <summary>Finds that scopes have overlapped without a gap for twice the age: none of them needs to be old, but what they hold back is. A scope that was opened beside one that is too old has its own age until then.</summary>
    /// <returns>How the one that was opened last was opened; null when there was a gap in time, or only scopes with a limit are open. The next span counts from now.</returns>
    public ScopeOpening? EndOverlap(BufferClock clock, TimeSpan maxAge)
    {
        if (AllHaveLimits || clock.AgeOf(_coveredSince) <= 2 * maxAge)
            return null;
        _coveredSince = clock.Coarse;
        return FindYoungest()!.Opening;
    }

    private void Grow(HandleBuffer owner)
    {
        var grown = new HandleScopeToken[Math.Max(1, Count * 2)];
        _tokens.CopyTo(grown, 0);
        for (var index = Count; index < grown.Length; index++)
            grown[index] = new HandleScopeToken(owner) { Index = index };
        _tokens = grown;
    }

    private readonly void Swap(HandleScopeToken left, HandleScopeToken right)
    {
        (left.Index, right.Index) = (right.Index, left.Index);
        _tokens[left.Index] = left;
        _tokens[right.Index] = right;
    }

    private void CountSpecial(in ScopeOpening opening, int change)
    {
        _limited += opening.HasLimit ? change : 0;
        _ambient += opening.IsAmbient ? change : 0;
    }
}

/// <summary>How a scope was opened: where in the source, and how long it may hold output back.</summary>
/// <param name="File">The source file of the caller.</param>
/// <param name="Line">The line in it.</param>
internal readonly record struct ScopeOpening(string File, int Line)
{
    // The ticks of the limit, and in the lowest bit whether it is an ambient scope's: every scope copies this, and most have neither.
    private readonly long _special;

    public ScopeOpening(string file, int line, TimeSpan maxHold, bool isAmbient)
        : this(file, line) => _special = (maxHold.Ticks << 1) + (isAmbient ? 1 : 0);

    /// <summary>The limit; zero when there is none.</summary>
    public TimeSpan MaxHold => TimeSpan.FromTicks(_special >> 1);

    public bool HasLimit => _special >> 1 != 0;

    /// <summary>True when an ambient scope took it.</summary>
    public bool IsAmbient => (_special & 1) != 0;

    /// <summary>False for what most scopes are: one handle's, without a limit.</summary>
    public bool IsSpecial => _special != 0;
}

/// <summary>One handle's scope. Reused by its handle; the version tells a scope from the next one that uses the token.</summary>
internal sealed class HandleScopeToken(HandleBuffer owner) : IScopeToken
{
    public const long Closed = 0;

    /// <summary>The index of a scope that was ended before its owner closed it.</summary>
    public const int Ended = -1;

    public HandleBuffer Owner => owner;

    // All below are guarded by the owner's lock.
    /// <summary>Which of the handle's scopes it stands for, in the order in which they were opened; <see cref="Closed"/> while it stands for none.</summary>
    public long Version { get; set; }

    public int Index { get; set; }

    public ScopeOpening Opening { get; set; }

    public long OpenedAt { get; set; }

    /// <summary>The place of the last batch that was queued before the scope opened: what is lost behind it was written in the scope.</summary>
    public long Since { get; set; }

    public void Close(long version)
    {
        EncoderGuard.ThrowIfEncoding();
        owner.CloseScope(this, version, waits: false);
    }

    public ValueTask CloseAsync(long version)
    {
        EncoderGuard.ThrowIfEncoding();
        return owner.EndWait(owner.CloseScope(this, version, waits: true), CancellationToken.None);
    }
}

using BatchKit.Batches;

namespace BatchKit.Buffering;

/// <summary>A handle's open scopes, youngest first, and its free tokens. Guarded by the handle's lock.</summary>
internal struct HandleScopes
{
    private HandleScopeToken? _youngest;
    private HandleScopeToken? _free;
    private int _limited;
    private int _ambient;

    public int Count { get; private set; }

    /// <summary>True while an ambient scope holds output back: its batches need their place among those of its other handles.</summary>
    public readonly bool HasAmbient => _ambient > 0;

    /// <summary>False while a scope without a limit is open: its output waits for its end.</summary>
    public readonly bool AllHaveLimits => _limited == Count;

    public readonly HandleScopeToken? Youngest => _youngest;

    public HandleScopeToken Open(HandleBuffer owner, in ScopeOpening opening, long now, long since)
    {
        var token = _free ?? new HandleScopeToken(owner);
        _free = token.Next;
        token.Opening = opening;
        token.OpenedAt = now;
        token.Since = since;
        token.Previous = null;
        token.Next = _youngest;
        if (_youngest is not null)
            _youngest.Previous = token;
        _youngest = token;
        if (opening.IsSpecial)
            CountSpecial(opening, 1);
        Count++;
        return token;
    }

    public void Close(HandleScopeToken token)
    {
        token.Version++;
        if (token.Previous is null)
            _youngest = token.Next;
        else
            token.Previous.Next = token.Next;
        if (token.Next is not null)
            token.Next.Previous = token.Previous;
        token.Next = _free;
        _free = token;
        if (token.Opening.IsSpecial)
            CountSpecial(token.Opening, -1);
        Count--;
    }

    /// <summary>The longest that the handle's own scopes may hold output back; without any, the longest that an ambient one may; null when no scope is open.</summary>
    /// <remarks>An ambient scope times what its flow writes. What another flow writes, or what waited for the end of a scope without a limit, only the handle can time.</remarks>
    public readonly TimeSpan? LongestHold()
    {
        TimeSpan? longest = null;
        TimeSpan? longestAmbient = null;
        for (var scope = _youngest; scope is not null; scope = scope.Next)
        {
            ref var kind = ref scope.Opening.IsAmbient ? ref longestAmbient : ref longest;
            if (kind is null || scope.Opening.MaxHold > kind)
                kind = scope.Opening.MaxHold;
        }

        return longest ?? longestAmbient;
    }

    /// <summary>Closes the scopes that are too old. One with a limit never is: it holds nothing back for longer than its limit.</summary>
    /// <returns>How each of them was opened; null when none was too old.</returns>
    public List<ScopeOpening>? CloseExpired(BufferClock clock, TimeSpan maxAge)
    {
        List<ScopeOpening>? expired = null;
        for (var scope = _youngest; scope is not null;)
        {
            var older = scope.Next;
            if (!scope.Opening.HasLimit && clock.AgeOf(scope.OpenedAt) > maxAge)
            {
                (expired ??= []).Add(scope.Opening);
                Close(scope);
            }

            scope = older;
        }

        return expired;
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
/// <param name="MaxHold">The limit; zero when there is none.</param>
/// <param name="IsAmbient">True when an ambient scope took it.</param>
internal readonly record struct ScopeOpening(string File, int Line, TimeSpan MaxHold = default, bool IsAmbient = false)
{
    public bool HasLimit => MaxHold != TimeSpan.Zero;

    /// <summary>False for what most scopes are: one handle's, without a limit.</summary>
    public bool IsSpecial => IsAmbient || HasLimit;
}

/// <summary>One handle's scope. Pooled in its handle's free list; the version tells a scope from the next one that uses the token.</summary>
internal sealed class HandleScopeToken(HandleBuffer owner) : IScopeToken
{
    public HandleBuffer Owner => owner;

    // All below are guarded by the owner's lock.
    public long Version { get; set; }

    public ScopeOpening Opening { get; set; }

    public long OpenedAt { get; set; }

    /// <summary>The place of the last batch that was queued before the scope opened: what is lost behind it was written in the scope.</summary>
    public long Since { get; set; }

    /// <summary>The next older open scope, or the next free token.</summary>
    public HandleScopeToken? Next { get; set; }

    /// <summary>The next younger open scope.</summary>
    public HandleScopeToken? Previous { get; set; }

    public void Close(long version) => owner.CloseScope(this, version);

    public ValueTask CloseAsync(long version) => owner.CloseScopeAsync(this, version);
}

using BatchKit.Dispatch;

namespace BatchKit.Buffering;

/// <summary>A handle's open scopes, youngest first, and its free tokens. Guarded by the handle's lock.</summary>
internal struct HandleScopes
{
    private HandleScopeToken? _youngest;
    private HandleScopeToken? _free;

    public int Count { get; private set; }

    public readonly HandleScopeToken? Youngest => _youngest;

    public HandleScopeToken Open(HandleBuffer owner, string openerFile, int openerLine, long now)
    {
        var token = _free ?? new HandleScopeToken(owner);
        _free = token.Next;
        token.OpenerFile = openerFile;
        token.OpenerLine = openerLine;
        token.OpenedAt = now;
        token.Previous = null;
        token.Next = _youngest;
        if (_youngest is not null)
            _youngest.Previous = token;
        _youngest = token;
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
        Count--;
    }

    /// <returns>Where each scope was opened that was too old; null when none was.</returns>
    public List<ExpiredScope>? CloseExpired(CoarseClock clock, TimeSpan maxAge)
    {
        List<ExpiredScope>? expired = null;
        for (var scope = _youngest; scope is not null;)
        {
            var older = scope.Next;
            if (clock.AgeOf(scope.OpenedAt) > maxAge)
            {
                (expired ??= []).Add(new ExpiredScope(scope.OpenerFile, scope.OpenerLine));
                Close(scope);
            }

            scope = older;
        }

        return expired;
    }
}

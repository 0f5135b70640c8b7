namespace BatchKit.Buffering;

/// <summary>One handle's scope. Pooled in its handle's free list; the version tells a scope from the next one that uses the token.</summary>
internal sealed class HandleScopeToken(HandleBuffer owner) : IScopeToken
{
    // All guarded by the owner's lock.
    public long Version { get; set; }

    public long OpenedAt { get; set; }

    public string OpenerFile { get; set; } = string.Empty;

    public int OpenerLine { get; set; }

    /// <summary>The next older open scope, or the next free token.</summary>
    public HandleScopeToken? Next { get; set; }

    /// <summary>The next younger open scope.</summary>
    public HandleScopeToken? Previous { get; set; }

    public void Close(long version) => owner.CloseScope(this, version);

    public ValueTask CloseAsync(long version) => owner.CloseScopeAsync(this, version);
}

namespace BatchKit.Buffering;

/// <summary>The ambient scopes of one buffer: at most one outermost scope an async flow.</summary>
internal sealed class AmbientScopes
{
    private readonly AsyncLocal<AmbientScope?> _current = new();

    // Lets a write skip the look at its flow while no ambient scope is open anywhere.
    private int _open;

    /// <summary>The calling flow's scope, while it is open.</summary>
    public AmbientScope? Current => Volatile.Read(ref _open) != 0 && _current.Value is { IsOpen: true } scope ? scope : null;

    public BufferingScope Open(string openerFile, int openerLine)
    {
        if (Current?.TryNest() is { } nested)
            return nested;
        Interlocked.Increment(ref _open);
        var scope = new AmbientScope(this, openerFile, openerLine);
        _current.Value = scope;
        return new BufferingScope(scope, AmbientScope.OutermostVersion);
    }

    public void OnClosed(AmbientScope scope)
    {
        Interlocked.Decrement(ref _open);
        if (ReferenceEquals(_current.Value, scope))
            _current.Value = null;
    }
}

namespace BatchKit.Buffering;

/// <summary>The ambient scopes opened inside an ambient scope, each with a version of its own so that none counts twice.</summary>
internal sealed class NestedScopes
{
    private readonly HashSet<long> _open = [];
    private long _lastVersion = AmbientScope.OutermostVersion;

    public int Count => _open.Count;

    public long Open()
    {
        _open.Add(++_lastVersion);
        return _lastVersion;
    }

    public bool Close(long version) => _open.Remove(version);
}

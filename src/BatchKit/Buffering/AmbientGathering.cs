using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using BatchKit.Batches;

namespace BatchKit.Buffering;

/// <summary>What an ambient scope needs beyond its first handle: its other handles, in which order they were written to, and the scopes nested in it.</summary>
internal sealed class AmbientGathering
{
    // A look at all handles pays after half as many turns, and so many more.
    private const int MinTurns = 64;

    private readonly Dictionary<HandleBuffer, (BufferingScope Scope, long LastTurn)> _scopes = [];

    // When each opened, as the moment of the last loss before it.
    private Dictionary<long, long>? _nested;
    private long _lastNested = AmbientScope.OutermostVersion;
    private long _firstsTurn;

    // Incremented at each write to another handle than the previous one.
    private long _turn;
    private long _namedTurn;

    // The turn at which written handles, or unused ones, were last taken out.
    private long _takenTurn;
    private long _forgottenTurn;

    public bool HasScopes => _scopes.Count > 0;

    public bool HasNested => _nested is { Count: > 0 };

    public IEnumerable<HandleBuffer> Handles => _scopes.Keys;

    public BufferingScope ScopeOn(HandleBuffer handle) => _scopes[handle].Scope;

    /// <summary>The handles that had a turn since the last call, behind the first one, which has none while it is the only one.</summary>
    public IEnumerable<HandleBuffer> TakeWritten(BufferSettings settings)
    {
        var since = _takenTurn;
        _takenTurn = _turn;
        ForgetUnused(settings);
        return _scopes.Where(entry => entry.Value.LastTurn > since).Select(static entry => entry.Key);
    }

    public void Add(HandleBuffer first, HandleBuffer handle, BufferingScope scope, BufferSettings settings)
    {
        ForgetUnused(settings);
        if (!HasScopes && !first.Handle.IsConnection)
            _namedTurn = _turn;
        _scopes.Add(handle, (scope, NextTurn(handle)));
    }

    public bool WriteAgainToFirst(HandleBuffer handle)
    {
        var startsRun = StartsRun(handle, _firstsTurn);
        _firstsTurn = NextTurn(handle);
        return startsRun;
    }

    public bool TryWriteAgain(HandleBuffer handle, out bool startsRun)
    {
        startsRun = false;
        ref var entry = ref CollectionsMarshal.GetValueRefOrNullRef(_scopes, handle);
        if (Unsafe.IsNullRef(ref entry))
            return false;
        startsRun = StartsRun(handle, entry.LastTurn);
        entry.LastTurn = NextTurn(handle);
        return true;
    }

    public long OpenNested(long lastLoss)
    {
        (_nested ??= []).Add(++_lastNested, lastLoss);
        return _lastNested;
    }

    public bool CloseNested(long version, out long openedAt)
    {
        openedAt = 0;
        return _nested?.Remove(version, out openedAt) == true;
    }

    // The scope may stay open for as long as the process runs, and each reconnect is a new handle.
    private void ForgetUnused(BufferSettings settings)
    {
        if (_turn - _forgottenTurn < (_scopes.Count / 2) + MinTurns)
            return;
        _forgottenTurn = _turn;
        foreach (var (handle, entry) in _scopes)
        {
            if (entry.Scope.IsUnused(settings))
                _scopes.Remove(handle);
        }
    }

    // As in a partition's queue: output for a name goes behind everything written since, and output for a connection behind what was written to names.
    private bool StartsRun(HandleBuffer handle, long lastTurn) => (handle.Handle.IsConnection ? _namedTurn : _turn) > lastTurn;

    private long NextTurn(HandleBuffer handle)
    {
        _turn++;
        if (!handle.Handle.IsConnection)
            _namedTurn = _turn;
        return _turn;
    }
}

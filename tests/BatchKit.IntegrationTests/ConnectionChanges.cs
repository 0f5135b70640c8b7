using BatchKit.TestSupport;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests;

/// <summary>Collects what a <c>ConnectionChanged</c> callback is told.</summary>
internal sealed class ConnectionChanges
{
    private readonly Lock _gate = new();
    private readonly List<ConnectionChange> _changes = [];

    public IReadOnlyList<ConnectionChange> All
    {
        get
        {
            lock (_gate)
                return [.. _changes];
        }
    }

    public IEnumerable<BrokerConnectionState> States => All.Select(static change => change.State);

    public void Add(ConnectionChange change)
    {
        lock (_gate)
            _changes.Add(change);
    }

    /// <summary>A callback that collects, and fails.</summary>
    public void AddAndThrow(ConnectionChange change)
    {
        Add(change);
        throw new IOException("The callback is broken.");
    }

    public Task WaitAsync(int count) => Until.TrueAsync(() => All.Count >= count);

    /// <summary>Checks that a connection was opened, lost for a reason and restored, once each and in this order; returns the three changes.</summary>
    public IReadOnlyList<ConnectionChange> AssertRestoredOnce(string purpose)
    {
        var changes = All.Where(change => change.Purpose == purpose).ToArray();
        Assert.Equal([BrokerConnectionState.Connected, BrokerConnectionState.Lost, BrokerConnectionState.Restored], changes.Select(static change => change.State));
        Assert.NotNull(changes[1].Reason);
        return changes;
    }
}

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

    public Task WaitAsync(int count) => Until.TrueAsync(() => All.Count >= count);
}

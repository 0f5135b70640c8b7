using System.Net;
using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Tcp;

/// <summary>One client's place among all connections, from the moment that it is accepted.</summary>
internal sealed class ClientPlace(ConnectionTable connections) : IDisposable
{
    private bool _isTaken;
    private IPAddress? _address;

    /// <summary>Takes a place that counts for the address, instead of the one that it has.</summary>
    public bool TryTake(IPAddress? address)
    {
        Dispose();
        _address = address;
        return _isTaken = connections.TryTakePlace(address);
    }

    public void Dispose()
    {
        if (_isTaken)
            connections.ReleasePlace(_address);
        _isTaken = false;
    }
}

using System.Net;
using BatchKit.Broadcast.Connections;
using Microsoft.AspNetCore.Connections;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>The places of each address at an HTTP endpoint.</summary>
internal sealed class RequestPlaces(int placesPerAddress)
{
    // Guards the dictionary.
    private readonly Lock _lock = new();
    private readonly Dictionary<IPAddress, int> _taken = [];

    /// <summary>Serves a connection, or closes it when its address has no place left.</summary>
    public async Task ServeAsync(ConnectionContext connection, ConnectionDelegate next)
    {
        if (connection.RemoteEndPoint is not IPEndPoint { Address: var address })
        {
            await next(connection).ConfigureAwait(false);
            return;
        }

        var network = ConnectionTable.NetworkOf(address);
        if (!TryTake(network))
            return;
        using var place = new RequestPlace(this, network);
        connection.Features.Set(place);
        await next(connection).ConfigureAwait(false);
    }

    public void Release(IPAddress network)
    {
        lock (_lock)
        {
            if (--_taken[network] == 0)
                _taken.Remove(network);
        }
    }

    private bool TryTake(IPAddress network)
    {
        lock (_lock)
        {
            var taken = _taken.GetValueOrDefault(network);
            if (taken >= placesPerAddress)
                return false;
            _taken[network] = taken + 1;
            return true;
        }
    }
}

/// <summary>A connection's place, until it ends or is upgraded.</summary>
internal sealed class RequestPlace(RequestPlaces places, IPAddress network) : IDisposable
{
    private bool _isReleased;

    public void Dispose()
    {
        if (!Interlocked.Exchange(ref _isReleased, true))
            places.Release(network);
    }
}

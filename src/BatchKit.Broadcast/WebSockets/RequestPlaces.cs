using System.Net;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Tcp;
using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.Connections.Features;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>The places of each address at an HTTP endpoint.</summary>
/// <param name="placesPerAddress">How many each address has.</param>
/// <param name="mostHandles">How many file handles the process may have open; null where that is not known.</param>
internal sealed class RequestPlaces(int placesPerAddress, int? mostHandles)
{
    // Guards the dictionary.
    private readonly Lock _lock = new();
    private readonly Dictionary<IPAddress, int> _taken = [];

    /// <summary>Serves a connection, or closes it when its address has no place left, or it has one of the last file handles.</summary>
    public async Task ServeAsync(ConnectionContext connection, ConnectionDelegate next)
    {
        if (connection.Features.Get<IConnectionSocketFeature>()?.Socket is { } socket && HandleLimit.IsNear(socket, mostHandles))
            return;
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

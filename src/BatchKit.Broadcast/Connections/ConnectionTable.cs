using System.Collections.Concurrent;
using System.Diagnostics.CodeAnalysis;
using System.Net;
using System.Net.Sockets;

namespace BatchKit.Broadcast.Connections;

/// <summary>This node's connections by handle, and the limits on their number.</summary>
internal sealed class ConnectionTable(BroadcastOptions options, int node, TimeProvider timeProvider)
{
    private readonly ConcurrentDictionary<OutputHandle, ClientConnection> _connections = new();
    private readonly ConcurrentDictionary<IPAddress, int> _perAddress = new();
    private int _places;
    private readonly long[] _disconnects = new long[Enum.GetValues<DisconnectReason>().Length];
    private long _unknownControls;
    private volatile bool _isClosed;

    // Handles are never reused: numbers start at the clock, and no node accepts 32 clients per millisecond for long.
    private long _sequence = timeProvider.GetUtcNow().ToUnixTimeMilliseconds() * 32;

    /// <summary>Connections that are established.</summary>
    public int Count => _connections.Count;

    /// <summary>Connections, including those that are still being established.</summary>
    public int Places => Volatile.Read(ref _places);

    /// <summary>True once no more connections are accepted.</summary>
    public bool IsClosed => _isClosed;

    public int Addresses => _perAddress.Count;

    public long UnknownControls => Interlocked.Read(ref _unknownControls);

    public IEnumerable<ClientConnection> All => _connections.Select(entry => entry.Value);

    public OutputHandle NextHandle() => OutputHandle.Connection(node, Interlocked.Increment(ref _sequence));

    public bool TryGet(OutputHandle handle, [MaybeNullWhen(false)] out ClientConnection connection) => _connections.TryGetValue(handle, out connection);

    public void Add(ClientConnection connection) => _connections[connection.Handle] = connection;

    public bool Remove(ClientConnection connection) => _connections.TryRemove(connection.Handle, out _);

    public void Close() => _isClosed = true;

    public void CountDisconnect(DisconnectReason reason) => Interlocked.Increment(ref _disconnects[(int)reason]);

    public long DisconnectsFor(DisconnectReason reason) => Interlocked.Read(ref _disconnects[(int)reason]);

    public void CountUnknownControl() => Interlocked.Increment(ref _unknownControls);

    /// <summary>Takes a place for one more connection; <see cref="ReleasePlace"/> gives it back.</summary>
    /// <param name="address">The client's own address; null when it has none.</param>
    /// <returns>False when a limit is reached, in total or for the address.</returns>
    public bool TryTakePlace(IPAddress? address)
    {
        // Compared before it is taken: a place above the limit, even for a moment, could turn away another client.
        int places;
        do
        {
            places = Volatile.Read(ref _places);
            if (places >= options.MaxConnections || _isClosed)
                return false;
        }
        while (Interlocked.CompareExchange(ref _places, places + 1, places) != places);

        if (options.MaxConnectionsPerAddress is not { } limit || address is null)
            return true;
        var network = NetworkOf(address);
        if (_perAddress.AddOrUpdate(network, 1, (_, count) => count + 1) <= limit)
            return true;
        ReleasePlace(address);
        return false;
    }

    public void ReleasePlace(IPAddress? address)
    {
        Interlocked.Decrement(ref _places);
        if (options.MaxConnectionsPerAddress is null || address is null)
            return;
        var network = NetworkOf(address);
        if (_perAddress.AddOrUpdate(network, 0, (_, count) => count - 1) <= 0)
            _perAddress.TryRemove(KeyValuePair.Create(network, 0));
    }

    // One subscriber has a whole /64 of IPv6 addresses (RFC 6177), so its addresses count as one.
    private static IPAddress NetworkOf(IPAddress address)
    {
        const int networkBytes = 8;
        if (address.IsIPv4MappedToIPv6)
            return address.MapToIPv4();
        if (address.AddressFamily != AddressFamily.InterNetworkV6)
            return address;
        var bytes = address.GetAddressBytes();
        bytes.AsSpan(networkBytes).Clear();
        return new IPAddress(bytes);
    }
}

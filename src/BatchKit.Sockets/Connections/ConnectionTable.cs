using System.Collections.Concurrent;
using System.Diagnostics.CodeAnalysis;
using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;
using System.Security.Cryptography;

namespace BatchKit.Broadcast.Connections;

/// <summary>This node's connections by handle, and the limits on their number.</summary>
internal sealed class ConnectionTable(BroadcastOptions options, NodeNumber node)
{
    private readonly ConcurrentDictionary<OutputHandle, ClientConnection> _connections = new();

    // Guards the next three fields. Both limits are checked in one step, so that a client that is turned away takes no place from another one.
    private readonly Lock _placesLock = new();
    private readonly Dictionary<IPAddress, int> _perAddress = [];
    private int _places;
    private int _lingering;

    private int _compressed;

    private readonly long[] _disconnects = new long[Enum.GetValues<DisconnectReason>().Length];
    private long _unknownControls;
    private volatile bool _isClosed;

    // Handles are never reused, not even after a restart or a change of the clock, because numbers start at a random place. Two runs with 10 million clients each overlap with a probability of 1 in 1.7 million.
    private long _sequence = DrawStart();

    /// <summary>Connections that are established.</summary>
    public int Count => _connections.Count;

    /// <summary>Connections, including those that are still being established.</summary>
    public int Places => Volatile.Read(ref _places);

    /// <summary>Handlers that still run although their connections have ended.</summary>
    public int Lingering => Volatile.Read(ref _lingering);

    /// <summary>Connections whose output or input is compressed.</summary>
    public int Compressed => Volatile.Read(ref _compressed);

    /// <summary>True while one more connection may be compressed.</summary>
    public bool MayCompress => Compressed < options.MaxCompressedConnections;

    /// <summary>True once no more connections are accepted.</summary>
    public bool IsClosed => _isClosed;

    public int Addresses
    {
        get
        {
            lock (_placesLock)
                return _perAddress.Count;
        }
    }

    public long UnknownControls => Interlocked.Read(ref _unknownControls);

    public IEnumerable<ClientConnection> All => _connections.Select(entry => entry.Value);

    public OutputHandle NextHandle() => OutputHandle.Connection(node.Value, Interlocked.Increment(ref _sequence));

    public bool TryGet(OutputHandle handle, [MaybeNullWhen(false)] out ClientConnection connection) => _connections.TryGetValue(handle, out connection);

    public void Add(ClientConnection connection) => _connections[connection.Handle] = connection;

    public bool Remove(ClientConnection connection)
    {
        if (connection.EndCompression())
            Interlocked.Decrement(ref _compressed);
        return _connections.TryRemove(connection.Handle, out _);
    }

    /// <summary>Takes a place for a connection whose output or input is to be compressed; it is given back when the connection is removed. One place is for both.</summary>
    /// <returns>False when the limit is reached, or the connection has ended.</returns>
    public bool TryCompress(ClientConnection connection)
    {
        if (connection.HoldsCompressionPlace)
            return true;
        if (Interlocked.Increment(ref _compressed) <= options.MaxCompressedConnections && connection.TryHoldCompression())
            return true;
        Interlocked.Decrement(ref _compressed);
        return false;
    }

    public void Close() => _isClosed = true;

    public void CountDisconnect(DisconnectReason reason) => Interlocked.Increment(ref _disconnects[(int)reason]);

    public long DisconnectsFor(DisconnectReason reason) => Interlocked.Read(ref _disconnects[(int)reason]);

    public void CountUnknownControl() => Interlocked.Increment(ref _unknownControls);

    /// <summary>Takes a place for one more connection; <see cref="ReleasePlace"/> gives it back.</summary>
    /// <param name="address">The client's own address; null when it has none, or when it is not known yet.</param>
    /// <returns>False when a limit is reached, in total or for the address.</returns>
    public bool TryTakePlace(IPAddress? address)
    {
        lock (_placesLock)
        {
            if (_places >= options.MaxConnections || _lingering >= options.MaxLingeringHandlers || _isClosed || !TryCountAddress(address))
                return false;
            _places++;
            return true;
        }
    }

    /// <summary>Counts a place, which was taken without an address, for the client's own address.</summary>
    /// <returns>False when the address has no place left; the place itself is kept.</returns>
    public bool TryAssignPlace(IPAddress? address)
    {
        lock (_placesLock)
            return !_isClosed && TryCountAddress(address);
    }

    /// <summary>Frees a place whose handler still runs; the place for its address stays taken.</summary>
    public void BeginLingering()
    {
        lock (_placesLock)
        {
            _places--;
            _lingering++;
        }
    }

    public void ReleasePlace(IPAddress? address, bool isLingering = false)
    {
        lock (_placesLock)
        {
            (_places, _lingering) = isLingering ? (_places, _lingering - 1) : (_places - 1, _lingering);
            if (address is null)
                return;
            var network = NetworkOf(address);
            if (--CollectionsMarshal.GetValueRefOrNullRef(_perAddress, network) == 0)
                _perAddress.Remove(network);
        }
    }

    /// <summary>What counts as one address. One subscriber has a whole /64 of IPv6 addresses (RFC 6177).</summary>
    public static IPAddress NetworkOf(IPAddress address)
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

    // From the lowest quarter, so that the second is left for a process that runs for long. The upper half is for sessions.
    private static long DrawStart() => MemoryMarshal.Read<long>(RandomNumberGenerator.GetBytes(sizeof(long))) & (OutputHandle.MaxSequence / 4);

    private bool TryCountAddress(IPAddress? address)
    {
        if (address is null)
            return true;
        var network = NetworkOf(address);
        var count = _perAddress.GetValueOrDefault(network);
        if (count >= options.PlacesPerAddress)
            return false;
        _perAddress[network] = count + 1;
        return true;
    }
}

/// <summary>One client's place in the connection limits, from the moment it is accepted.</summary>
internal sealed class ClientPlace(ConnectionTable connections) : IDisposable
{
    private bool _isTaken;
    private bool _isLingering;
    private IPAddress? _address;

    /// <summary>Takes a place.</summary>
    /// <param name="address">The client's own address; null when it is not known yet.</param>
    public bool TryTake(IPAddress? address)
    {
        _address = address;
        return _isTaken = connections.TryTakePlace(address);
    }

    /// <summary>Counts the place, which was taken without an address, for the client's own address.</summary>
    public bool TryAssign(IPAddress? address)
    {
        if (!connections.TryAssignPlace(address))
            return false;
        _address = address;
        return true;
    }

    /// <summary>Frees the place for another client although the handler still runs.</summary>
    public void Linger()
    {
        if (!_isTaken)
            return;
        _isLingering = true;
        connections.BeginLingering();
    }

    public void Dispose()
    {
        if (_isTaken)
            connections.ReleasePlace(_address, _isLingering);
        _isTaken = false;
    }
}

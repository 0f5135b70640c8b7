using BatchKit.Transports;

namespace BatchKit;

/// <summary>One way out of this process: a name, a transport, and how many partitions carry it.</summary>
public sealed class OutputRoute
{
    /// <summary>The most ordered lanes that a route may have: 64.</summary>
    public const int MaxPartitions = 64;

    /// <summary>Makes a route.</summary>
    /// <param name="name">What an <see cref="IOutputRouter"/> and the metrics call it.</param>
    /// <param name="transport">The next hop. The buffer does not dispose it.</param>
    /// <param name="partitions">
    /// Ordered lanes, from 1 to <see cref="MaxPartitions"/>. With 1, the default, order holds across handles too (a room's line, then a player's prompt); with more it
    /// holds per handle, and each partition has a send of its own in flight.
    /// </param>
    /// <exception cref="ArgumentException">The name is null or empty.</exception>
    /// <exception cref="ArgumentOutOfRangeException">The partitions are outside their range.</exception>
    public OutputRoute(string name, IBatchTransport transport, int partitions = 1)
    {
        ArgumentException.ThrowIfNullOrEmpty(name);
        ArgumentNullException.ThrowIfNull(transport);
        ArgumentOutOfRangeException.ThrowIfLessThan(partitions, 1);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(partitions, MaxPartitions);
        Name = name;
        Transport = transport;
        Partitions = partitions;
    }

    /// <summary>What an <see cref="IOutputRouter"/> and the metrics call it.</summary>
    public string Name { get; }

    /// <summary>The next hop.</summary>
    public IBatchTransport Transport { get; }

    /// <summary>How many ordered lanes it has.</summary>
    public int Partitions { get; }
}

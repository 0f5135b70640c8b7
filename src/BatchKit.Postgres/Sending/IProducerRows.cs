using BatchKit.Postgres.Schema;
using BatchKit.Transports;

namespace BatchKit.Postgres.Sending;

/// <summary>What one statement stores: rows of one producer, by the numbers of their batches.</summary>
internal interface IProducerRows : IDisposable
{
    ProducerId Producer { get; }

    /// <summary>The number of the last batch.</summary>
    long LastNumber { get; }

    /// <summary>The queues that they go to, each at least once.</summary>
    IEnumerable<QueueEntry> Queues { get; }

    /// <summary>The rows of the batches above a number that is below the last.</summary>
    /// <param name="number">The number.</param>
    /// <param name="firstNumber">The number of the first batch above it.</param>
    ReadOnlyMemory<QueueRow> Above(long number, out long firstNumber);
}

using BatchKit.Postgres.Schema;

namespace BatchKit.Postgres.Sending;

/// <summary>A message on its way into the table.</summary>
/// <param name="Queue">Where it goes.</param>
/// <param name="Number">The producer's number of its batch.</param>
/// <param name="Payload">Its bytes; valid as long as the send.</param>
/// <param name="Header">What its header says; null for a plain message.</param>
internal readonly record struct QueueRow(QueueEntry Queue, long Number, ReadOnlyMemory<byte> Payload, RowHeader? Header = null);

namespace BatchKit.Postgres.Schema;

/// <summary>A queue as the table has it.</summary>
/// <param name="Id">Its number in all other tables, and the payload of its notifications.</param>
/// <param name="Name">Its name.</param>
/// <param name="Shards">How many shards an ordered queue has; 0 for one without order.</param>
internal sealed record QueueEntry(int Id, string Name, int Shards);

using Npgsql;

namespace BatchKit.Postgres.Schema;

/// <summary>
/// Checks where a queue's number is used that the queue still has that number. When a schema was dropped and made again, or restored, a remembered number may be another queue's.
/// </summary>
/// <remarks>The check is part of a statement that is sent anyway. It divides by the number of queues that it finds, so that a batch whose queue is gone fails as a whole and changes nothing.</remarks>
internal static class QueueGuard
{
    /// <summary>The error of a failed check.</summary>
    public const string Lost = PostgresErrorCodes.DivisionByZero;

    /// <summary>Returns an expression that is 1, or fails.</summary>
    /// <param name="tables">The schema's tables.</param>
    /// <param name="id">The parameter with the number.</param>
    /// <param name="name">The parameter with the name.</param>
    /// <param name="shards">The parameter with the number of shards.</param>
    public static string One(Tables tables, string id, string name, string shards) =>
        $"1 / (select count(*) from {tables.Queues} where id = {id} and name = {name} and shards = {shards})";

    /// <summary>Returns an expression that is 1, or fails; its parameters are arrays.</summary>
    public static string Several(Tables tables, string ids, string names, string shards) =>
        $"""
        1 / (select case when count(q.id) = count(*) then 1 else 0 end from unnest({ids}, {names}, {shards}) as u (id, name, shards)
             left join {tables.Queues} as q on q.id = u.id and q.name = u.name and q.shards = u.shards)
        """;

    /// <summary>Creates the first command of a batch, with a check of one queue.</summary>
    public static NpgsqlBatchCommand CommandFor(Tables tables, QueueEntry queue, string select = "select") => new($"{select} {One(tables, "$1", "$2", "$3")}")
    {
        Parameters =
        {
            new NpgsqlParameter<int> { TypedValue = queue.Id },
            new NpgsqlParameter<string> { TypedValue = queue.Name },
            new NpgsqlParameter<short> { TypedValue = (short)queue.Shards },
        },
    };
}

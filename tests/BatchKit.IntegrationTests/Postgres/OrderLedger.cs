using BatchKit.TestServers.Postgres;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>Writes down, by a trigger of the test's own, in which order the messages of an ordered queue were completed: what the library says of itself is not asked.</summary>
/// <remarks>Messages that one statement completes have one place; those of a key are one shard's, whose statements come one after the other.</remarks>
internal sealed class OrderLedger
{
    // Numbers are counted per key, from 0.
    private const string InOrder = """
        numbered as (
            select key, number, row_number() over (partition by key order by place, number) - 1 as turn
            from (select key, number, min(place) over (partition by tx) as place from {s}.completions) c
        )
        """;

    private readonly TestSchema _schema;

    private OrderLedger(TestSchema schema) => _schema = schema;

    /// <summary>Begins it; the schema's tables must be there.</summary>
    public static async Task<OrderLedger> BeginAsync(TestSchema schema)
    {
        await schema.ExecuteAsync("""
            create table {s}.completions (place bigint generated always as identity primary key, tx bigint not null default txid_current(), key text not null, number bigint not null,
                worker text not null default current_setting('application_name'));
            create function {s}.note_completed() returns trigger language plpgsql as $$ begin
                insert into {s}.completions (key, number) select g.key, convert_from(g.payload, 'UTF8')::bigint from gone g; return null; end $$;
            create trigger completions after delete on {s}.messages referencing old table as gone for each statement execute function {s}.note_completed()
            """);
        return new OrderLedger(schema);
    }

    /// <summary>How many completions there were, and perhaps a few more: cheap enough to ask often.</summary>
    public Task<long> EstimateAsync() => _schema.ScalarAsync<long>("select coalesce(max(place), 0) from {s}.completions");

    /// <summary>How many completions there were.</summary>
    public Task<long> CountCompletedAsync() => _schema.ScalarAsync<long>("select count(*) from {s}.completions");

    /// <summary>How many keys there were completions of.</summary>
    public Task<long> CountKeysAsync() => _schema.ScalarAsync<long>("select count(distinct key) from {s}.completions");

    /// <summary>How many messages of their key were not completed in their turn, once each.</summary>
    public Task<long> CountOutOfTurnAsync() => _schema.ScalarAsync<long>($"with {InOrder} select count(*) from numbered where number <> turn");

    /// <summary>How many messages were handled before an earlier one of their key was, for the first time or, the last time, by the workers that completed them. A worker that has lost its claim may handle one once more, later.</summary>
    public Task<long> CountHandledOutOfOrderAsync() => _schema.ScalarAsync<long>("""
        with handled as (
                select key, number, min(h.place) as first, max(h.place) filter (where h.process::text = c.worker) as last
                from {s}.handlings h join {s}.completions c using (key, number) group by key, number),
            compared as (select first < lag(first) over by_number as is_first_early, last < lag(last) over by_number as is_last_early from handled window by_number as (partition by key order by number))
        select count(*) from compared where is_first_early or is_last_early
        """);

    /// <summary>What is left in the queue: waiting or in hand, and dead.</summary>
    public async Task<(long Waiting, long Dead)> CountLeftAsync()
    {
        var counts = await _schema.ScalarAsync<long[]>("select array[(select count(*) from {s}.messages), (select count(*) from {s}.dead)]");
        return (counts![0], counts[1]);
    }
}

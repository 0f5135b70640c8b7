using BatchKit.TestServers.Postgres;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>Writes down, by triggers of the test's own, how each claim of an unordered queue ended: what the library says of itself is not asked.</summary>
/// <remarks>A message that leaves the claims is completed unless the same transaction puts it back among the messages, or among the dead.</remarks>
internal sealed class ClaimLedger
{
    private const string Completed = """
        completed as (select e.id from {s}.ledger e where e.what = 'ended' and not exists (select from {s}.ledger k where k.what <> 'ended' and k.tx = e.tx and k.id = e.id))
        """;

    // A claim that was given back in good order has ended before its time.
    private const string Returned = """
        returned as (select e.id, e.until, e.at from {s}.ledger e join {s}.ledger k on k.what = 'back' and k.tx = e.tx and k.id = e.id where e.what = 'ended' and e.at >= e.until)
        """;

    private readonly TestSchema _schema;

    private ClaimLedger(TestSchema schema) => _schema = schema;

    /// <summary>Begins it; the schema's tables must be there.</summary>
    public static async Task<ClaimLedger> BeginAsync(TestSchema schema)
    {
        await schema.ExecuteAsync("""
            create table {s}.ledger (tx bigint not null default txid_current(), what text not null, id bigint not null, until timestamptz, at timestamptz not null default clock_timestamp());
            create function {s}.note_ended() returns trigger language plpgsql as $$ begin
                insert into {s}.ledger (what, id, until) select 'ended', unnest(g.ids), g.until from gone g; return null; end $$;
            create function {s}.note_back() returns trigger language plpgsql as $$ begin
                insert into {s}.ledger (what, id) select tg_argv[0], c.id from came c; return null; end $$;
            create trigger ledger after delete on {s}.claims referencing old table as gone for each statement execute function {s}.note_ended();
            create trigger ledger after insert on {s}.messages referencing new table as came for each statement execute function {s}.note_back('back');
            create trigger ledger after insert on {s}.dead referencing new table as came for each statement execute function {s}.note_back('dead')
            """);
        return new ClaimLedger(schema);
    }

    /// <summary>Makes what is asked at the end cheap: by now there are hundreds of thousands of rows, of which the planner knows nothing.</summary>
    public Task CloseAsync() => _schema.ExecuteAsync("""
        create index on {s}.ledger (tx, id);
        create index on {s}.handlings (id, handled_at);
        analyze {s}.ledger;
        analyze {s}.handlings
        """);

    /// <summary>How many different messages were completed.</summary>
    public Task<long> CountCompletedAsync() => _schema.ScalarAsync<long>($"with {Completed} select count(distinct id) from completed");

    /// <summary>How many messages were completed more than once.</summary>
    public Task<long> CountCompletedTwiceAsync() => _schema.ScalarAsync<long>($"with {Completed} select count(*) from (select id from completed group by id having count(*) > 1) as twice");

    /// <summary>How many messages came back because their claim's time was over; one that came back twice counts twice.</summary>
    public Task<long> CountReturnedAsync() => _schema.ScalarAsync<long>($"with {Returned} select count(*) from returned");

    /// <summary>How long after their claims' time they came back, on the server's clock: the median and the latest.</summary>
    public Task<TimeSpan[]?> ReadReturnTimesAsync() => _schema.ScalarAsync<TimeSpan[]>($"""
        with {Returned} select percentile_disc(array[0.5, 1.0]) within group (order by at - until) from returned
        """);

    /// <summary>How long after their claims' time they were handled again: the median and the latest.</summary>
    public Task<TimeSpan[]?> ReadRetakenTimesAsync() => _schema.ScalarAsync<TimeSpan[]>($$"""
        with {{Returned}}, retaken as (select r.until, (select min(h.handled_at) from {s}.handlings h where h.id = r.id and h.handled_at > r.at) as at from returned r)
        select percentile_disc(array[0.5, 1.0]) within group (order by at - until) from retaken
        """);

    /// <summary>What is in the queue's tables now: waiting, claimed, dead.</summary>
    public async Task<(long Waiting, long Claimed, long Dead)> CountLeftAsync()
    {
        var counts = await _schema.ScalarAsync<long[]>("""
            select array[(select count(*) from {s}.messages), (select coalesce(sum(cardinality(ids)), 0) from {s}.claims), (select count(*) from {s}.dead)]
            """);
        return (counts![0], counts[1], counts[2]);
    }
}

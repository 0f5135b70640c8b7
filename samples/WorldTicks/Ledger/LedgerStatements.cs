namespace WorldTicks.Ledger;

/// <summary>The SQL of the sample's own two tables. They do not use the queue's tables, so they check the queue independently.</summary>
internal sealed class LedgerStatements
{
    /// <param name="schema">The schema's name, unquoted.</param>
    public LedgerStatements(string schema)
    {
        var quoted = $"\"{schema.Replace("\"", "\"\"", StringComparison.Ordinal)}\"";
        var (reports, workers) = ($"{quoted}.ticks_reports", $"{quoted}.ticks_workers");
        Create = $"""
            create schema if not exists {quoted};
            create table if not exists {reports} (
                id bigint generated always as identity, report uuid primary key, at timestamptz not null default now(), run int not null, number bigint not null,
                region int not null, step bigint not null, attempt int not null, microseconds bigint, worker text not null);
            create index if not exists ticks_reports_run on {reports} (run, id);
            create table if not exists {workers} (
                name text primary key, seen_at timestamptz not null, handling int not null, given_back bigint not null, refused bigint not null, stopped boolean not null);
            """;
        Report = $"""
            insert into {reports} (report, run, number, region, step, attempt, microseconds, worker)
            select report, run, number, region, step, attempt,
                   case when prompt then greatest(0, (extract(epoch from clock_timestamp() - enqueued_at) * 1000000)::bigint - age) end, $10
            from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9) with ordinality as u(report, run, number, region, step, attempt, enqueued_at, age, prompt, place)
            order by place
            on conflict (report) do nothing
            """;
        Read = $"select report, number, region, step, attempt, microseconds, worker from {reports} where run = $1 order by id limit $2";
        Forget = $"delete from {reports} where report = any($1)";
        ForgetOld = $"delete from {reports} where run <> $1 and at < now() - interval '10 minutes'";
        SayAlive = $"""
            insert into {workers} as w (name, seen_at, handling, given_back, refused, stopped) values ($1, now(), $2, $3, $4, $5)
            on conflict (name) do update set seen_at = now(), handling = excluded.handling, given_back = excluded.given_back, refused = excluded.refused, stopped = excluded.stopped
            """;
        ReadWorkers = $"""
            select name, handling, given_back, refused, stopped, extract(epoch from now() - seen_at)::float8 from {workers} where seen_at > now() - interval '1 minute' order by name
            """;
        ForgetWorkers = $"delete from {workers} where seen_at < now() - interval '10 minutes'";
    }

    public string Lock => "select pg_advisory_xact_lock(hashtextextended('worldticks ' || $1, 0))";

    public string Create { get; }

    public string Report { get; }

    public string Read { get; }

    public string Forget { get; }

    public string ForgetOld { get; }

    public string SayAlive { get; }

    public string ReadWorkers { get; }

    public string ForgetWorkers { get; }
}

using BatchKit.TestServers.Postgres;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>What worker processes write down of each handling, in a table of the test's schema: number, id, attempt, key, process, in the order of <c>place</c>, at the server's time.</summary>
internal sealed class HandlingTable
{
    private readonly TestSchema _schema;

    private HandlingTable(TestSchema schema) => _schema = schema;

    /// <summary>Its name with its schema, quoted.</summary>
    public string Name => $"{_schema.Quoted}.handlings";

    public static async Task<HandlingTable> CreateAsync(TestSchema schema)
    {
        await schema.ExecuteAsync("""
            create schema if not exists {s};
            create table {s}.handlings (place bigint generated always as identity primary key, number bigint not null, id bigint not null, attempt int not null, key text, process int not null,
                handled_at timestamptz not null default clock_timestamp())
            """);
        return new HandlingTable(schema);
    }

    /// <summary>How many handlings there were, and perhaps a few more: cheap enough to ask often.</summary>
    public Task<long> EstimateAsync() => _schema.ScalarAsync<long>("select coalesce(max(place), 0) from {s}.handlings");

    /// <summary>How many handlings there were.</summary>
    public Task<long> CountAsync() => _schema.ScalarAsync<long>("select count(*) from {s}.handlings");

    /// <summary>How many different messages were handled.</summary>
    public Task<long> CountNumbersAsync() => _schema.ScalarAsync<long>("select count(distinct number) from {s}.handlings");

    /// <summary>How many messages were stored more than once: the same number under several ids.</summary>
    public Task<long> CountStoredTwiceAsync() =>
        _schema.ScalarAsync<long>("select count(*) from (select number from {s}.handlings group by number having count(distinct id) > 1) as twice");
}

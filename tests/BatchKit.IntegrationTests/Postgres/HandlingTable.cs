using Npgsql;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>What worker processes write down of each handling, in a schema of its own: number, id, attempt, key, process, in the order of <c>place</c>, at the server's time.</summary>
internal sealed class HandlingTable
{
    private readonly NpgsqlDataSource _dataSource;

    private HandlingTable(NpgsqlDataSource dataSource, string name)
    {
        _dataSource = dataSource;
        Name = name;
    }

    /// <summary>Its name with its schema, quoted.</summary>
    public string Name { get; }

    public static async Task<HandlingTable> CreateAsync(NpgsqlDataSource dataSource)
    {
        var schema = $"handled_{Guid.NewGuid():n}";
        var name = $"{schema}.handlings";
        await using var command = dataSource.CreateCommand($"""
            create schema {schema};
            create table {name} (place bigint generated always as identity, number bigint not null, id bigint not null, attempt int not null, key text, process int not null,
                handled_at timestamptz not null default clock_timestamp())
            """);
        await command.ExecuteNonQueryAsync();
        return new HandlingTable(dataSource, name);
    }

    /// <summary>How many different messages were handled.</summary>
    public Task<long> CountNumbersAsync() => ReadAsync($"select count(distinct number) from {Name}");

    /// <summary>How many handlings there were.</summary>
    public Task<long> CountAsync() => ReadAsync($"select count(*) from {Name}");

    /// <summary>How many messages were stored more than once: the same number under several ids.</summary>
    public Task<long> CountStoredTwiceAsync() => ReadAsync($"select count(*) from (select number from {Name} group by number having count(distinct id) > 1) as twice");

    private async Task<long> ReadAsync(string query)
    {
        await using var command = _dataSource.CreateCommand(query);
        command.CommandTimeout = 120;
        return (long)(await command.ExecuteScalarAsync())!;
    }
}

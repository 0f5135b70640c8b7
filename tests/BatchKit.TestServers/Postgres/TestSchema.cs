using Npgsql;

namespace BatchKit.TestServers.Postgres;

/// <summary>A data source on a server, and the name of a schema that no other test uses; not created yet. Disposing drops it.</summary>
public sealed class TestSchema : IAsyncDisposable
{
    private TestSchema(NpgsqlDataSource dataSource, string name)
    {
        DataSource = dataSource;
        Name = name;
    }

    /// <summary>A pool of its own on the server.</summary>
    public NpgsqlDataSource DataSource { get; }

    /// <summary>The schema's name, unquoted.</summary>
    public string Name { get; }

    /// <summary>The schema's name as SQL has it.</summary>
    public string Quoted => $"\"{Name.Replace("\"", "\"\"", StringComparison.Ordinal)}\"";

    /// <summary>Makes one; it does not connect yet.</summary>
    /// <param name="server">The server.</param>
    /// <param name="name">The schema's name; one at random when null.</param>
    public static TestSchema On(PostgresServer server, string? name = null) => new(NpgsqlDataSource.Create(server.ConnectionString), name ?? $"test_{Guid.NewGuid():N}");

    /// <summary>Runs statements; <c>{s}</c> in them stands for the quoted schema.</summary>
    public async Task ExecuteAsync(string sql)
    {
        await using var command = DataSource.CreateCommand(Fill(sql));
        await command.ExecuteNonQueryAsync();
    }

    /// <summary>Creates a role that has the schema's name and all rights on its tables, which must exist, and a pool that logs in as this role.</summary>
    public async Task<NpgsqlDataSource> OpenAsOwnRoleAsync()
    {
        await ExecuteAsync($"create role {Name} login; grant usage on schema {{s}} to {Name}; grant all on all tables in schema {{s}} to {Name}");
        return NpgsqlDataSource.Create(new NpgsqlConnectionStringBuilder(DataSource.ConnectionString) { Username = Name });
    }

    /// <summary>The first column of the first row; <c>{s}</c> stands for the quoted schema.</summary>
    public async Task<T?> ScalarAsync<T>(string sql)
    {
        await using var command = DataSource.CreateCommand(Fill(sql));
        return await command.ExecuteScalarAsync() is T value ? value : default;
    }

    /// <summary>The first column of all rows; <c>{s}</c> stands for the quoted schema.</summary>
    public async Task<List<T>> ColumnAsync<T>(string sql)
    {
        await using var command = DataSource.CreateCommand(Fill(sql));
        await using var reader = await command.ExecuteReaderAsync();
        var values = new List<T>();
        while (await reader.ReadAsync())
            values.Add(await reader.GetFieldValueAsync<T>(0));
        return values;
    }

    /// <inheritdoc/>
    public async ValueTask DisposeAsync()
    {
        try
        {
            await ExecuteAsync("drop schema if exists {s} cascade");
        }
        catch (NpgsqlException)
        {
            // Its server was stopped, and goes with all its data.
        }

        await DataSource.DisposeAsync();
    }

    private string Fill(string sql) => sql.Replace("{s}", Quoted, StringComparison.Ordinal);
}

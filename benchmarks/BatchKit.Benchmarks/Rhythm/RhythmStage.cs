using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.RhythmWays;
using BatchKit.Postgres;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.Benchmarks.Rhythm;

/// <summary>A PostgreSQL with its defaults (fsync and synchronous_commit on), the tables of BatchKit, and one as queues are written by hand.</summary>
internal sealed class RhythmStage : IAsyncDisposable
{
    public const string Messages = "batchkit.messages";

    /// <summary>Tasks as a textbook has them: a row is claimed by an update and deleted when it is done.</summary>
    public const string Plain = "rhythm.tasks";

    /// <summary>The shards of ordered queues.</summary>
    public const int Shards = 32;

    private const int PoolSize = 80;

    private const string CreatePlain = $"""
        create schema rhythm;
        create table {Plain} (id bigint generated always as identity primary key, enqueued_at timestamptz not null default now(), claimed_until timestamptz, payload bytea not null);
        create index on {Plain} (id) where claimed_until is null;
        """;

    // Null for a server of the user's, from which what was made is dropped.
    private readonly PostgresServer? _server;

    // With a name of its own, by which its connections are found.
    private readonly NpgsqlConnectionStringBuilder _settings;

    private RhythmStage(string disk, PostgresServer? server, string connectionString)
    {
        Disk = disk;
        _server = server;
        _settings = new NpgsqlConnectionStringBuilder(connectionString) { MaxPoolSize = PoolSize, ApplicationName = $"batchkit-bench-{Guid.NewGuid():n}" };
        DataSource = NpgsqlDataSource.Create(_settings);
    }

    /// <summary>What it makes in a database.</summary>
    public static IReadOnlyList<string> Schemas { get; } = ["batchkit", "rhythm"];

    /// <summary>What the tables call it.</summary>
    public string Disk { get; }

    public NpgsqlDataSource DataSource { get; }

    /// <summary>How programs that are not .NET's connect to it.</summary>
    public Uri Address => new($"postgres://postgres@{_server!.Host}:{_server.Port}/postgres");

    public static async Task<RhythmStage> StartAsync(string disk, PostgresServerOptions options)
    {
        var server = await PostgresServer.StartOwnAsync(options);
        return await CreateAsync(new RhythmStage(disk, server, server.ConnectionString));
    }

    /// <summary>Uses a database that has none of the schemas.</summary>
    public static Task<RhythmStage> ConnectAsync(string disk, string connectionString) => CreateAsync(new RhythmStage(disk, server: null, connectionString));

    /// <summary>A batch has a whole scope of a thousand, and waits for nothing.</summary>
    public static OutputBufferOptions MakeBufferOptions() => new() { MaxBatchBytes = 1024 * 1024 };

    /// <summary>Takes all rows out of BatchKit's tables.</summary>
    public Task EmptyAsync() => ExecuteAsync("truncate batchkit.messages, batchkit.claims, batchkit.dead");

    /// <summary>Lets nothing of the filling go on while a run is timed.</summary>
    public async Task SettleAsync(string table)
    {
        await ExecuteAsync($"vacuum analyze {table}");
        // Not every user may do that.
        if (_server is not null)
            await ExecuteAsync("checkpoint");
    }

    /// <summary>Finds an unordered queue's number, or makes the queue.</summary>
    public async Task<int> FindQueueAsync(string queue)
    {
        await ExecuteAsync($"insert into batchkit.queues (name) values ('{queue}') on conflict do nothing");
        return (int)await CountAsync($"select id from batchkit.queues where name = '{queue}'");
    }

    /// <exception cref="InvalidOperationException">The table has not just these tasks, each once.</exception>
    public async Task RequireStoredAsync(string queue, int tasks)
    {
        const string Numbers = "select {0} from batchkit.messages join batchkit.queues on queues.id = messages.queue where name = '{1}'";
        var rows = await CountAsync(string.Format(null, Numbers, "count(*)", queue));
        var different = await CountAsync(string.Format(null, Numbers, "count(distinct substring(payload for 4))", queue));
        if (rows != tasks || different != tasks)
            throw new InvalidOperationException($"Of {tasks} tasks for '{queue}' {different} are stored, in {rows} rows.");
    }

    /// <exception cref="InvalidOperationException">A table that should be empty is not.</exception>
    public async Task RequireEmptyAsync(params string[] tables)
    {
        foreach (var table in tables)
        {
            if (await CountAsync($"select count(*) from {table}") is var rows and not 0)
                throw new InvalidOperationException($"{rows} rows are left in {table}.");
        }
    }

    public async Task<long> CountAsync(string statement)
    {
        await using var command = DataSource.CreateCommand(statement);
        return Convert.ToInt64(await command.ExecuteScalarAsync(), provider: null);
    }

    public async Task ExecuteAsync(string statement)
    {
        await using var command = DataSource.CreateCommand(statement);
        await command.ExecuteNonQueryAsync();
    }

    /// <summary>Fills the textbook's table.</summary>
    public async Task FillPlainAsync(int tasks)
    {
        await ExecuteAsync($"truncate {Plain}");
        await using var command = DataSource.CreateCommand($"insert into {Plain} (payload) select int4send(number) || $2 from generate_series(0, $1 - 1) number");
        command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = tasks });
        command.Parameters.Add(new NpgsqlParameter<byte[]> { TypedValue = TaskPayload.Make()[sizeof(int)..] });
        await command.ExecuteNonQueryAsync();
        await SettleAsync(Plain);
    }

    public async ValueTask DisposeAsync()
    {
        if (_server is null)
            await TryDropAsync();
        await DataSource.DisposeAsync();
        if (_server is not null)
            await _server.DisposeAsync();
    }

    // An exception would hide that of the run, or lose its tables.
    private async Task TryDropAsync()
    {
        try
        {
            await DropAsync($"drop schema if exists {string.Join(", ", Schemas)} cascade");
        }
        catch (NpgsqlException failure)
        {
            Console.Error.WriteLine($"The schemas {string.Join(" and ", Schemas)} are left in the database {_settings.Database}: {NamedServers.MessageOf(failure)}");
        }
    }

    private async Task DropAsync(string drop)
    {
        if (!Interruption.Token.IsCancellationRequested)
        {
            await ExecuteAsync(drop);
            return;
        }

        // What was begun goes on for minutes and holds the tables: its connections are ended, and it gets no others.
        await DataSource.DisposeAsync();
        await using var connection = new NpgsqlConnection(new NpgsqlConnectionStringBuilder(_settings.ConnectionString) { ApplicationName = null, Pooling = false }.ConnectionString);
        await connection.OpenAsync();
        await using var command = new NpgsqlCommand($"select pg_terminate_backend(pid) from pg_stat_activity where application_name = '{_settings.ApplicationName}'; {drop}", connection);
        await command.ExecuteNonQueryAsync();
    }

    private static async Task<RhythmStage> CreateAsync(RhythmStage stage)
    {
        try
        {
            await PostgresSchema.EnsureSchemaAsync(stage.DataSource);
            await stage.ExecuteAsync(CreatePlain);
            return stage;
        }
        catch
        {
            await stage.DisposeAsync();
            throw;
        }
    }
}

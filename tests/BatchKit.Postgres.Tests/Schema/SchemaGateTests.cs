using System.Buffers.Binary;
using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.Postgres.Tests.Schema;

/// <summary>A migration that takes longer than its callers wait goes on, and nothing limits it.</summary>
public sealed class SchemaGateTests(PostgresFixture postgres)
{
    [Fact]
    public async Task A_send_that_gives_up_names_the_migration_and_the_next_one_waits_for_the_same()
    {
        var clock = new ManualTimeProvider();
        await using var schema = await postgres.NewSchemaAsync();
        await using var other = await LockAsync(schema);
        var options = new PostgresOptions { Schema = schema.Name };
        await using var transport = new PostgresQueueTransport(schema.DataSource, options, clock);

        var first = SendAsync(transport, 1);
        var migrating = await FindMigrationAsync(schema);
        clock.Advance(options.CommandTimeout);
        var error = await Assert.ThrowsAsync<IOException>(() => first).WithinDeadline();
        var second = SendAsync(transport, 2);
        var health = transport.FindFaultAsync(TestContext.Current.CancellationToken);
        var still = await FindMigrationAsync(schema);
        await other.DisposeAsync();
        await second.WithinDeadline();

        Assert.Contains($"The schema '{schema.Name}' is being created or migrated", error.Message, StringComparison.Ordinal);
        Assert.Equal(migrating, still);
        Assert.Null(await health.WithinDeadline());
    }

    [Fact]
    public async Task What_cancels_the_caller_of_EnsureSchema_or_disposes_a_transport_ends_its_migration()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var other = await LockAsync(schema);
        using var cancellation = new CancellationTokenSource();
        var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name });

        var ensuring = PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name, cancellation.Token);
        await FindMigrationAsync(schema);
        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => ensuring).WithinDeadline();
        var afterCancel = await CountMigrationsAsync(schema);
        var sending = SendAsync(transport, 1);
        await FindMigrationAsync(schema);
        await transport.DisposeAsync().AsTask().WithinDeadline();
        await Assert.ThrowsAsync<IOException>(() => sending).WithinDeadline();

        Assert.Equal((0L, 0L), (afterCancel, await CountMigrationsAsync(schema)));
    }

    [Fact]
    public async Task A_call_of_the_admin_may_take_longer_than_the_servers_limit_of_a_statement()
    {
        await using var schema = await postgres.NewTablesAsync();
        await schema.ExecuteAsync("insert into {s}.queues (name) values ('tasks')");
        await using var blocker = await schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var transaction = await blocker.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await using (var command = new NpgsqlCommand($"lock table {schema.Quoted}.messages, {schema.Quoted}.dead, {schema.Quoted}.shards", blocker, transaction))
            await command.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);
        await using var impatient = NpgsqlDataSource.Create($"{schema.DataSource.ConnectionString};Application Name={schema.Name};Options=-c statement_timeout=100");
        var admin = new PostgresQueueAdmin(impatient, schema.Name);
        Task[] calls =
        [
            admin.ListAsync(TestContext.Current.CancellationToken), admin.ListDeadAsync("tasks", cancellationToken: TestContext.Current.CancellationToken),
            admin.ReplayAsync("tasks", cancellationToken: TestContext.Current.CancellationToken), admin.DeleteDeadAsync("tasks", cancellationToken: TestContext.Current.CancellationToken),
            admin.PurgeAsync("tasks", TestContext.Current.CancellationToken), admin.CancelAsync("tasks", "key", TestContext.Current.CancellationToken),
        ];

        await Until.TrueAsync(async () => Array.Exists(calls, static call => call.IsCompleted) || await schema.ScalarAsync<long>(
            $"select count(*) from pg_stat_activity where application_name = '{schema.Name}' and wait_event_type = 'Lock' and clock_timestamp() - query_start > interval '300 milliseconds'") == calls.Length);
        await transaction.DisposeAsync();

        await Task.WhenAll(calls).WithinDeadline();
    }

    private static Task SendAsync(PostgresQueueTransport transport, long number) =>
        transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("tasks"), Some.Producer(), number, "one") }, TestContext.Current.CancellationToken).AsTask();

    // When the transaction of the only migration that waits for the lock began.
    private static async Task<DateTime> FindMigrationAsync(TestSchema schema)
    {
        await Until.TrueAsync(async () => await CountMigrationsAsync(schema) == 1);
        return await schema.ScalarAsync<DateTime>($"select a.xact_start {Waiting(schema)}");
    }

    private static Task<long> CountMigrationsAsync(TestSchema schema) => schema.ScalarAsync<long>($"select count(*) {Waiting(schema)}");

    private static string Waiting(TestSchema schema) =>
        $"from pg_locks as l join pg_stat_activity as a on a.pid = l.pid where l.locktype = 'advisory' and not l.granted and (l.classid::bigint << 32 | l.objid::bigint) = {LockOf(schema).ToString(CultureInfo.InvariantCulture)}";

    private static long LockOf(TestSchema schema) => BinaryPrimitives.ReadInt64LittleEndian(SHA256.HashData(Encoding.UTF8.GetBytes($"batchkit schema {schema.Name}")));

    // Takes the place of another process that migrates the schema.
    private static async Task<NpgsqlConnection> LockAsync(TestSchema schema)
    {
        var connection = new NpgsqlConnection($"{schema.DataSource.ConnectionString};Pooling=false");
        await connection.OpenAsync(TestContext.Current.CancellationToken);
        await using var command = new NpgsqlCommand("select pg_advisory_lock($1)", connection) { Parameters = { new NpgsqlParameter<long> { TypedValue = LockOf(schema) } } };
        await command.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);
        return connection;
    }
}

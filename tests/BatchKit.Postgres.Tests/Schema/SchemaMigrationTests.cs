using BatchKit.Postgres.Schema;
using BatchKit.TestServers.Postgres;

namespace BatchKit.Postgres.Tests.Schema;

/// <summary>A schema goes from version to version, each step once, whatever is in it.</summary>
public sealed class SchemaMigrationTests(PostgresFixture postgres)
{
    private static readonly SchemaSteps One = new(FirstVersion.Script);
    private static readonly SchemaSteps Two = new(FirstVersion.Script, static tables => $"alter table {tables.Queues} add column note text not null default 'new';");

    [Fact]
    public async Task A_further_step_keeps_what_is_there()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await MigrateAsync(schema, One);
        await schema.ExecuteAsync("insert into {s}.queues (name) values ('kept')");

        await MigrateAsync(schema, Two);
        await MigrateAsync(schema, Two);

        Assert.Equal(["kept new"], await schema.ColumnAsync<string>("select name || ' ' || note from {s}.queues"));
        Assert.Equal([2], await schema.ColumnAsync<int>("select number from {s}.version"));
    }

    [Fact]
    public async Task A_step_that_fails_changes_nothing()
    {
        var broken = new SchemaSteps(FirstVersion.Script, static tables => $"alter table {tables.Queues} add column note text; select no_such_function();");
        await using var schema = await postgres.NewSchemaAsync();
        await MigrateAsync(schema, One);

        await Assert.ThrowsAsync<Npgsql.PostgresException>(() => MigrateAsync(schema, broken));

        Assert.Equal([1], await schema.ColumnAsync<int>("select number from {s}.version"));
        await MigrateAsync(schema, Two);
    }

    [Fact]
    public async Task A_step_that_waits_for_a_long_transaction_lets_others_pass_and_names_the_cause()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await MigrateAsync(schema, One);
        await using var backup = await schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var transaction = await backup.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await using (var command = new Npgsql.NpgsqlCommand($"select from {schema.Quoted}.queues", backup, transaction))
            await command.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);

        var migrating = MigrateAsync(schema, Two);
        await Until.TrueAsync(() => schema.ScalarAsync<bool>("select exists (select from pg_locks where not granted and relation = '{s}.queues'::regclass)"));
        await schema.ExecuteAsync("insert into {s}.queues (name) values ('passes')").WithinDeadline();
        var error = await Assert.ThrowsAsync<IOException>(() => migrating);
        await transaction.DisposeAsync();
        await MigrateAsync(schema, Two);

        Assert.Contains("another transaction", error.Message, StringComparison.Ordinal);
        Assert.Equal(["passes new"], await schema.ColumnAsync<string>("select name || ' ' || note from {s}.queues"));
    }

    [Theory]
    [InlineData("Command Timeout=1")]
    [InlineData("Options=-c statement_timeout=1000")]
    public async Task A_step_may_take_longer_than_a_statement_of_the_data_source(string limit)
    {
        var slow = new SchemaSteps(FirstVersion.Script, static tables => $"alter table {tables.Queues} add column note text not null default 'new'; select pg_sleep(1.5);");
        await using var schema = await postgres.NewSchemaAsync();
        await using var impatient = Npgsql.NpgsqlDataSource.Create($"{schema.DataSource.ConnectionString};{limit}");
        await using var connection = await impatient.OpenConnectionAsync(TestContext.Current.CancellationToken);

        await new SchemaMigration(new Tables(schema.Name), slow).RunAsync(connection, TestContext.Current.CancellationToken);

        Assert.Equal([2], await schema.ColumnAsync<int>("select number from {s}.version"));
    }

    [Fact]
    public async Task A_lock_timeout_of_the_data_source_ends_neither_a_migration_nor_a_call_of_an_administrator()
    {
        await using var schema = await postgres.NewTablesAsync();
        await schema.ExecuteAsync("insert into {s}.queues (name) values ('tasks')");
        await using var impatient = Npgsql.NpgsqlDataSource.Create($"{schema.DataSource.ConnectionString};Options=-c lock_timeout=1");
        await using var connection = await impatient.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var holder = await schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var transaction = await holder.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await using (var locking = new Npgsql.NpgsqlCommand($"lock table {schema.Quoted}.messages", holder))
            await locking.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);

        await new SchemaMigration(new Tables(schema.Name), SchemaSteps.Published).RunAsync(connection, TestContext.Current.CancellationToken);
        var purging = new PostgresQueueAdmin(impatient, schema.Name).PurgeAsync("tasks", TestContext.Current.CancellationToken);
        await Until.TrueAsync(async () => purging.IsCompleted || await schema.ScalarAsync<bool>("select exists (select from pg_locks where not granted and relation = '{s}.messages'::regclass)"));
        await transaction.RollbackAsync(TestContext.Current.CancellationToken);

        Assert.Equal(0, await purging);
    }

    [Fact]
    public async Task Many_at_once_take_each_step_once()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await MigrateAsync(schema, One);

        await Task.WhenAll(Enumerable.Range(0, 10).Select(_ => MigrateAsync(schema, Two)));

        Assert.Equal([2], await schema.ColumnAsync<int>("select number from {s}.version"));
    }

    [Fact]
    public async Task An_older_version_of_the_package_leaves_a_later_schema_alone()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await MigrateAsync(schema, Two);

        var error = await Assert.ThrowsAsync<InvalidOperationException>(() => MigrateAsync(schema, One));

        Assert.Contains("version 2", error.Message, StringComparison.Ordinal);
        Assert.Contains("version 1", error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Without_leave_to_create_a_missing_schema_is_an_error_that_says_what_to_run()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var gate = new SchemaGate(schema.DataSource, schema.Name, mayCreate: false);

        var error = await Assert.ThrowsAsync<InvalidOperationException>(async () => await gate.PassAsync(TestContext.Current.CancellationToken));

        Assert.Contains("GetScript", error.Message, StringComparison.Ordinal);
        await schema.ExecuteAsync(PostgresSchema.GetScript(schema.Name));
        await gate.PassAsync(TestContext.Current.CancellationToken);
    }

    [Fact]
    public async Task Each_statement_of_a_step_is_a_command_of_its_own_whatever_the_schema_is_named()
    {
        var tables = new Tables("it's; \"so\";");
        var statements = SqlScript.Split(SchemaSteps.Published.After(0, tables)).Select(static statement => statement.Trim()).ToArray();

        Assert.All(statements, static statement => Assert.Matches("^(create|alter|drop|delete|insert) ", statement));
        Assert.DoesNotContain(statements, statement => statement.Replace(tables.Quoted, string.Empty, StringComparison.Ordinal).Contains(';', StringComparison.Ordinal));
        Assert.Equal(SchemaSteps.Published.After(0, tables).Replace(tables.Quoted, string.Empty, StringComparison.Ordinal).Count(static character => character == ';'), statements.Length);
    }

    private static async Task MigrateAsync(TestSchema schema, SchemaSteps steps)
    {
        await using var connection = await schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await new SchemaMigration(new Tables(schema.Name), steps).RunAsync(connection, TestContext.Current.CancellationToken);
    }
}

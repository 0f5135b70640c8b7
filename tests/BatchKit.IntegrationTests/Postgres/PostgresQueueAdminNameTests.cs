using System.Text;
using BatchKit.Postgres;
using Npgsql;

namespace BatchKit.IntegrationTests.Postgres;

public sealed class PostgresQueueAdminNameTests(PostgresFixture fixture)
{
    // Stands for half of a surrogate pair, which an attribute can't hold.
    private const string HalfPair = "half";

    [Theory]
    [InlineData("nowhere")]
    [InlineData("")]
    [InlineData("nul\0")]
    [InlineData(HalfPair)]
    [InlineData("' or true --")]
    public async Task An_unknown_queue_is_named_with_the_schema(string name)
    {
        var queue = Fill(name);
        await using var schema = await fixture.NewSchemaAsync();
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name);
        await QueueRows.CreateAsync(schema);
        var admin = new PostgresQueueAdmin(schema.DataSource, schema.Name);

        var errors = new[]
        {
            await Assert.ThrowsAsync<KeyNotFoundException>(() => admin.ListDeadAsync(queue)),
            await Assert.ThrowsAsync<KeyNotFoundException>(() => admin.ReplayAsync(queue)),
            await Assert.ThrowsAsync<KeyNotFoundException>(() => admin.DeleteDeadAsync(queue)),
            await Assert.ThrowsAsync<KeyNotFoundException>(() => admin.PurgeAsync(queue)),
        };

        Assert.All(errors, error => Assert.StartsWith($"There is no queue '{queue}' in the schema '{schema.Name}'. ", error.Message, StringComparison.Ordinal));
    }

    [Theory]
    [InlineData("\"; drop schema public cascade; --")]
    [InlineData("it's \\ {0} $1 %s \n schéma \U0001F4EE")]
    [InlineData("SELECT")]
    [InlineData("sixty-three bytes, as many as an identifier of PostgreSQL can be")]
    public async Task Hostile_names_are_names(string name)
    {
        var schemaName = Guid.NewGuid().ToString("N")[..8] + name;
        while (Encoding.UTF8.GetByteCount(schemaName) > 63)
            schemaName = schemaName[..^1];
        await using var schema = await fixture.NewSchemaAsync(schemaName);
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name);
        var rows = await QueueRows.CreateAsync(schema, name);
        await rows.AddAsync();
        await rows.BuryAsync(1_000_001, error: name, key: name);
        var admin = new PostgresQueueAdmin(schema.DataSource, schema.Name);

        var dead = Assert.Single(await admin.ListDeadAsync(name));
        var replayed = await admin.ReplayAsync(name);
        var listed = Assert.Single(await admin.ListAsync());
        var purged = await admin.PurgeAsync(name);

        Assert.Equal((name, name), (dead.Key, dead.Error));
        Assert.Equal((name, 2, 0), (listed.Queue, listed.Ready, listed.Dead));
        Assert.Equal((1, 2), (replayed, purged));
    }

    [Theory]
    [InlineData("")]
    [InlineData("nul\0")]
    [InlineData(HalfPair)]
    [InlineData("sixty-four bytes are one more than an identifier of PostgreSQL is")]
    public async Task A_schema_that_can_not_be_is_refused(string name)
    {
        await using var dataSource = NpgsqlDataSource.Create("Host=127.0.0.1");

        var error = Assert.Throws<ArgumentException>(() => new PostgresQueueAdmin(dataSource, Fill(name)));

        Assert.StartsWith("The schema's name ", error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_missing_schema_is_the_servers_error()
    {
        await using var schema = await fixture.NewSchemaAsync();

        var error = await Assert.ThrowsAsync<PostgresException>(() => new PostgresQueueAdmin(schema.DataSource, schema.Name).ListAsync());

        Assert.Equal(PostgresErrorCodes.UndefinedTable, error.SqlState);
    }

    private static string Fill(string name) => name == HalfPair ? "half \ud800" : name;
}

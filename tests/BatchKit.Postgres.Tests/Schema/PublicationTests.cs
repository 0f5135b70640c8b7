using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Tests.Receiving;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;

namespace BatchKit.Postgres.Tests.Schema;

/// <summary>Change data capture publishes all tables of a database by default, so those of the schema too.</summary>
public sealed class PublicationTests(PostgresFixture postgres)
{
    [Theory]
    [InlineData(0)]
    [InlineData(2)]
    public async Task A_published_schema_works_as_before(int shards)
    {
        await using var schema = await postgres.NewTablesAsync();
        await using var publication = await Publication.OfAsync(schema);
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name, Shards = shards });
        var options = new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = "tasks", Shards = shards, PollInterval = TimeSpan.FromMilliseconds(50), RetryDelay = TimeSpan.Zero, MaxAttempts = 2 };
        await using var receiver = new PostgresQueueReceiver(schema.DataSource, options, new ScriptedHandler(static (batch, _) =>
        {
            foreach (var message in batch.Where(static message => ClaimScene.TextOf(message) == "bad"))
                message.Retry("It is bad.");
            return ValueTask.CompletedTask;
        }));

        await transport.SendAsync(new[] { MessageBatch.Create(OutputHandle.Named("tasks"), Some.Producer(), 1, Some.Message("good"), Some.Message("bad"), Some.Message("late", QueueMessageHeader.Create(TimeSpan.FromMilliseconds(1), uniqueKey: "once"))) }, TestContext.Current.CancellationToken);
        await receiver.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();

        await Until.TrueAsync(() => receiver.GetStatistics() is { CompletedMessages: 2, RetriedMessages: 1, BuriedMessages: 1 });
        Assert.Null(receiver.Fault);
    }

    [Fact]
    public async Task A_published_schema_of_the_version_before_is_migrated()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using (var connection = await schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken))
            await new SchemaMigration(new Tables(schema.Name), new SchemaSteps(FirstVersion.Script, SecondVersion.Script, ThirdVersion.Script)).RunAsync(connection, TestContext.Current.CancellationToken);
        await using var publication = await Publication.OfAsync(schema);

        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name, TestContext.Current.CancellationToken);

        Assert.Equal([PostgresSchema.Version], await schema.ColumnAsync<int>("delete from {s}.version returning number"));
    }

    /// <summary>A publication of a schema's tables, as one for all tables has them.</summary>
    private sealed class Publication(TestSchema schema) : IAsyncDisposable
    {
        public static async Task<Publication> OfAsync(TestSchema schema)
        {
            var tables = await schema.ColumnAsync<string>($"select '{{s}}.' || relname from pg_class where relkind = 'r' and relnamespace = '{schema.Name}'::regnamespace");
            await schema.ExecuteAsync($"create publication {schema.Name} for table {string.Join(", ", tables)}");
            return new Publication(schema);
        }

        public async ValueTask DisposeAsync() => await schema.ExecuteAsync($"drop publication {schema.Name}");
    }
}

using BatchKit.Postgres.Tests.Receiving;
using BatchKit.Testing;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Tests;

/// <summary>In a database whose encoding lacks characters, only what has such a character is refused, and errors are stored without it.</summary>
public sealed class EncodingTests(PostgresFixture postgres) : IAsyncLifetime
{
    private const string Cyrillic = "ключ";

    private readonly string _name = $"latin_{Guid.NewGuid():N}";
    private NpgsqlDataSource? _source;

    public async ValueTask InitializeAsync()
    {
        var server = await postgres.GetAsync();
        await ExecuteAsync($"create database {_name} encoding 'LATIN1' locale 'C' template template0");
        _source = NpgsqlDataSource.Create(new NpgsqlConnectionStringBuilder(server.ConnectionString) { Database = _name });
    }

    public async ValueTask DisposeAsync()
    {
        await _source!.DisposeAsync();
        await ExecuteAsync($"drop database {_name} with (force)");
    }

    [Theory]
    [InlineData("queue")]
    [InlineData("key")]
    [InlineData("unique key")]
    public async Task A_name_or_key_with_a_character_that_the_database_lacks_refuses_its_batch_alone(string what)
    {
        var producer = Some.Producer();
        await using var transport = new PostgresQueueTransport(_source!, new PostgresOptions { Shards = 1 });
        var header = what switch { "key" => new MessageHeader { Key = Cyrillic }, "unique key" => QueueMessageHeader.Create(uniqueKey: Cyrillic), _ => null };
        MessageBatch[] batches =
        [
            .. Enumerable.Range(1, 9).Select(number => MessageBatch.Create(
                OutputHandle.Named(number == 5 && what == "queue" ? Cyrillic : "tasks"), producer, number, Some.Message($"{number}", number == 5 ? header : new MessageHeader { Key = "key" }))),
        ];

        var error = await Assert.ThrowsAsync<BatchSendException>(() => transport.SendAsync(batches, TestContext.Current.CancellationToken).AsTask());

        Assert.Equal(Enumerable.Range(1, 9).Select(number => number == 5 ? BatchOutcome.Refused : BatchOutcome.Acknowledged), error.Outcomes);
        Assert.Contains("SQLSTATE 22P05", error.Message, StringComparison.Ordinal);
        Assert.Equal(["1", "2", "3", "4", "6", "7", "8", "9"], await ColumnAsync("select convert_from(payload, 'UTF8') from batchkit.messages order by id"));
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    public async Task An_error_with_a_character_that_the_database_lacks_is_stored_without_it(int shards)
    {
        await using var transport = new PostgresQueueTransport(_source!, new PostgresOptions { Shards = shards });
        await transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("tasks"), Some.Producer(), 1, "one") }, TestContext.Current.CancellationToken);
        var options = new PostgresQueueReceiverOptions { Queue = "tasks", Shards = shards, PollInterval = TimeSpan.FromMilliseconds(50) };
        await using var receiver = new PostgresQueueReceiver(_source!, options, new ScriptedHandler(static (batch, _) =>
        {
            batch[0].Refuse(Cyrillic + "!");
            return ValueTask.CompletedTask;
        }));

        await receiver.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();
        await Until.TrueAsync(() => receiver.GetStatistics().BuriedMessages == 1);

        Assert.Equal(["????!"], await ColumnAsync("select error from batchkit.dead"));
    }

    [Fact]
    public async Task A_queue_or_key_with_a_character_that_the_database_lacks_is_not_found()
    {
        await PostgresSchema.EnsureSchemaAsync(_source!, cancellationToken: TestContext.Current.CancellationToken);
        await using (var command = _source!.CreateCommand("insert into batchkit.queues (name) values ('tasks')"))
            await command.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);
        var admin = new PostgresQueueAdmin(_source!);

        Assert.False(await admin.CancelAsync("tasks", Cyrillic, TestContext.Current.CancellationToken));
        await Assert.ThrowsAsync<KeyNotFoundException>(() => admin.PurgeAsync(Cyrillic, TestContext.Current.CancellationToken));
        await Assert.ThrowsAsync<KeyNotFoundException>(() => admin.CancelAsync(Cyrillic, "key", TestContext.Current.CancellationToken));
    }

    private async Task<List<string>> ColumnAsync(string sql)
    {
        await using var command = _source!.CreateCommand(sql);
        await using var reader = await command.ExecuteReaderAsync();
        var values = new List<string>();
        while (await reader.ReadAsync())
            values.Add(reader.GetString(0));
        return values;
    }

    private async Task ExecuteAsync(string sql)
    {
        await using var source = NpgsqlDataSource.Create((await postgres.GetAsync()).ConnectionString);
        await using var command = source.CreateCommand(sql);
        await command.ExecuteNonQueryAsync();
    }
}

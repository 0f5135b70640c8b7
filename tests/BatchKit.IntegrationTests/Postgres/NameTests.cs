using BatchKit.IntegrationTests.Hostile;
using BatchKit.Postgres;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;
using Microsoft.Extensions.Options;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>Any name that PostgreSQL takes is a name of a schema and of a queue, and none is ever a part of a statement.</summary>
[Trait("Lane", "night: many hostile names and logins")]
public sealed class NameTests(PostgresFixture fixture)
{
    private const int QueueBytes = 1024;
    private const int SchemaBytes = 63;

    // Longer than any wait of a test: the notification's channel is made of the schema's name too.
    private static readonly TimeSpan NoPoll = TimeSpan.FromMinutes(5);

    public static TheoryData<string> Names =>
    [
        "quo\"ted", "\"", "it's", "''", "a\"; drop schema public cascade; --", "x'); drop table messages; --", "$1", "$$", "%s %n", "{0}", "{s}", "\\", "\\'; --", "E'\\000'", "a.b", "select", "/*", "--", ":x", "@x",
        " blanks ", "new\nline\r\n", "tab\t", "\u0001\u007f", "UPPER lower", "日本語", "🎲 dice", "e\u0301 and é", "\u202eright to left", "\ufeffmark", new string('x', 63), new string('漢', 21),
    ];

    public static TheoryData<string> LongQueues => [new string('q', 64), new string('q', QueueBytes), new string('漢', QueueBytes / 3), string.Concat(Enumerable.Repeat("🎲", QueueBytes / 4)), new string('"', QueueBytes), new string('\'', QueueBytes)];


    [Theory]
    [MemberData(nameof(Names))]
    public async Task A_name_is_taken_as_it_is(string name)
    {
        await using var schema = await fixture.NewSchemaAsync(name);
        await using var way = await QueueWay.StartAsync(await fixture.GetAsync(), name, receiving => (receiving.Queue, receiving.PollInterval) = (name, NoPoll));

        await way.WriteAsync(10);
        await way.AssertNothingLostOrStoredTwiceAsync();

        Assert.Equal([name], await schema.ColumnAsync<string>("select name from {s}.queues"));
        Assert.Equal(1, await CountSchemasAsync(schema, name));
    }

    [Theory]
    [MemberData(nameof(LongQueues))]
    public async Task A_queue_may_have_a_long_name(string name)
    {
        await using var schema = await fixture.NewSchemaAsync();
        await using var way = await QueueWay.StartAsync(await fixture.GetAsync(), schema.Name, receiving => (receiving.Queue, receiving.PollInterval) = (name, NoPoll));

        await way.WriteAsync(10);
        await way.AssertNothingLostOrStoredTwiceAsync();

        Assert.Equal([name], await schema.ColumnAsync<string>("select name from {s}.queues"));
    }

    [Fact]
    public async Task Names_that_differ_a_little_are_different_queues()
    {
        string[] names = ["way", "Way", "way ", " way", "w\u200bay", "way\n", "wаy", new('w', 64), new('w', 65)];
        await using var schema = await fixture.NewSchemaAsync();
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name });
        var producer = Some.Producer();

        await transport.SendAsync(Array.ConvertAll([.. Enumerable.Range(0, names.Length)], index => Some.Batch(OutputHandle.Named(names[index]), producer, index + 1, "0")), CancellationToken.None).WithinDeadline();

        Assert.Equal(names.Order(StringComparer.Ordinal), (await schema.ColumnAsync<string>("select name from {s}.queues")).Order(StringComparer.Ordinal));
        Assert.Equal(names.Length, await schema.ScalarAsync<long>("select count(distinct queue) from {s}.messages"));
    }

    [Fact]
    public async Task A_hostile_name_is_refused_alone_or_is_a_queue_as_it_is()
    {
        await using var schema = await fixture.NewSchemaAsync();
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name });
        var (producer, number, stored) = (Some.Producer(), 0, new List<string>());

        foreach (var name in HostileNames.Create())
        {
            try
            {
                var batch = Some.Batch(OutputHandle.Named(name), producer, ++number, "one");
                await transport.SendAsync(new[] { batch }, CancellationToken.None).WithinDeadline();
                stored.Add(name);
            }
            catch (Exception refused) when (refused is ArgumentException or BatchSendException { Outcomes: [BatchOutcome.Refused] })
            {
                Assert.Matches("name|queue", refused.Message);
            }
        }

        Assert.InRange(stored.Count, 1, HostileNames.Count - 1);
        Assert.Equal(stored.Order(StringComparer.Ordinal), (await schema.ColumnAsync<string>("select name from {s}.queues")).Order(StringComparer.Ordinal));
        Assert.Equal(stored.Count, await schema.ScalarAsync<long>("select count(distinct queue) from {s}.messages"));
    }

    [Theory]
    [InlineData("NUL")]
    [InlineData("too long")]
    public async Task A_queue_that_cannot_be_is_refused_and_its_neighbours_are_stored(string what)
    {
        var impossible = Impossible(what, QueueBytes);
        await using var schema = await fixture.NewSchemaAsync();
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name });
        var producer = Some.Producer();
        MessageBatch[] batches =
        [
            Some.Batch(OutputHandle.Named("one"), producer, 1, "1"), Some.Batch(OutputHandle.Named(impossible), producer, 2, "2"), Some.Batch(OutputHandle.Named("one"), producer, 3, "3"),
        ];

        var error = await Assert.ThrowsAsync<BatchSendException>(() => transport.SendAsync(batches, CancellationToken.None).AsTask().WithinDeadline());

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged], error.Outcomes);
        Assert.Equal(2, await schema.ScalarAsync<long>("select count(*) from {s}.messages"));
    }

    [Theory]
    [InlineData("empty")]
    [InlineData("NUL")]
    [InlineData("half a surrogate pair")]
    [InlineData("too long")]
    [InlineData("too long in bytes")]
    public async Task A_schema_that_cannot_be_is_refused_before_the_server_is_asked(string what)
    {
        var name = Impossible(what, SchemaBytes);
        await using var schema = await fixture.NewSchemaAsync();

        Assert.Throws<OptionsValidationException>(() => new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = name }));
        Assert.Throws<OptionsValidationException>(() => new PostgresQueueReceiver(schema.DataSource, new PostgresQueueReceiverOptions { Schema = name, Queue = "q" }, new NumberedHandler()));
        await Assert.ThrowsAsync<ArgumentException>(() => PostgresSchema.EnsureSchemaAsync(schema.DataSource, name));
        Assert.Throws<ArgumentException>(() => PostgresSchema.GetScript(name));
    }

    [Fact]
    public async Task A_schema_that_the_server_keeps_for_itself_is_reported_with_its_words()
    {
        await using var schema = await fixture.NewSchemaAsync();
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = "pg_mine" });

        var error = await Assert.ThrowsAsync<IOException>(() => transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("q"), Some.Producer(), 1, "0") }, CancellationToken.None).AsTask().WithinDeadline());

        Assert.Contains("pg_mine", Assert.IsAssignableFrom<Exception>(error.InnerException).Message, StringComparison.Ordinal);
    }

    private static string Impossible(string what, int bytes) => what switch
    {
        "empty" => "",
        "NUL" => "nul\0",
        "half a surrogate pair" => "half \ud800",
        "too long in bytes" => string.Concat(new string('漢', bytes / 3), "a"),
        _ => new string('x', bytes + 1),
    };

    private static async Task<long> CountSchemasAsync(TestSchema schema, string name)
    {
        await using var command = schema.DataSource.CreateCommand("select count(*) from pg_namespace where nspname = $1");
        command.Parameters.Add(new Npgsql.NpgsqlParameter<string> { TypedValue = name });
        return (long)(await command.ExecuteScalarAsync())!;
    }
}

using System.Text;
using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Tests.Receiving;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Tests;

/// <summary>
/// A stranger's functions and operators in <c>public</c>, which fit the arguments of our statements as well as PostgreSQL's own or better, never run, and a search path in which they would come first is refused.
/// </summary>
public sealed class HostilePublicTests(PostgresFixture postgres)
{
    // All types that our statements have, and those that PostgreSQL converts them to by itself.
    private const string Types =
        "smallint, int, bigint, real, double precision, numeric, text, varchar, bytea, boolean, timestamptz, timestamp, interval, name, oid, tid, bytea[], text[], bigint[], int[], smallint[], timestamptz[], interval[]";

    private const string Functions =
        "array_agg, array_to_string, bool_and, bool_or, cardinality, count, current_schemas, current_setting, floor, generate_series, hashtextextended, max, min, now, octet_length, pg_column_size, pg_notify, random, row_number, set_config, sum, unnest";

    private const string Operators = "=, <>, <, <=, >, >=, +, -, *, /, ||";

    // A function that PostgreSQL has for exactly these arguments is found first, so those of the stranger that matter have others; all of them are made.
    private static readonly string Strangers =
        $$"""
        create function public.stranger() returns int language plpgsql as 'begin raise exception ''A stranger ran.''; end';
        do $do$
        declare f text; l text; r text; o text; body text := $q$ language plpgsql as 'begin raise exception ''A stranger ran.''; end' $q$;
        begin
            foreach l in array string_to_array('{{Types}}', ', ') loop
                foreach f in array string_to_array('{{Functions}}', ', ') loop
                    execute format('create function public.%I(%s) returns int', f, l) || body;
                end loop;
                foreach r in array string_to_array('{{Types}}', ', ') loop
                    execute format('create function public.stranger(%s, %s) returns boolean', l, r) || body;
                    execute format('create function public.unnest(%s, %s) returns int', l, r) || body;
                    foreach o in array string_to_array('{{Operators}}', ', ') loop
                        execute format('create operator public.%s (leftarg = %s, rightarg = %s, function = public.stranger)', o, l, r);
                    end loop;
                end loop;
            end loop;
        end $do$;
        create function public.now() returns timestamptz language sql as 'select public.stranger(); select pg_catalog.now()';
        """;

    [Fact]
    [Trait("Lane", "slow: each statement is run beside hostile functions")]
    public async Task No_strangers_function_or_operator_runs()
    {
        await using var database = await HostileDatabase.CreateAsync(await postgres.GetAsync());
        await using var source = NpgsqlDataSource.Create(database.ConnectionString);
        await using var transport = new PostgresQueueTransport(source, new PostgresOptions { QueueShards = { ["ordered"] = 4 } });
        var (plain, ordered, forwarded) = (Failing(), Failing(), new CollectingTransport());
        await using var plainReceiver = new PostgresQueueReceiver(source, Options("plain", shards: 0), plain);
        await using var prefetching = new PostgresQueueReceiver(source, Options("prefetched", shards: 0, prefetch: 200), plain);
        await using var orderedReceiver = new PostgresQueueReceiver(source, Options("ordered", shards: 4), ordered);
        await using var outbox = new PostgresOutbox(source, forwarded, new PostgresOutboxOptions { PollInterval = TimeSpan.FromMilliseconds(20) });
        var producer = Some.Producer();

        foreach (var hosted in new[] { plainReceiver, prefetching, orderedReceiver })
            await hosted.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();
        await outbox.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();
        await transport.SendAsync(Batches(producer, 1), TestContext.Current.CancellationToken);
        await outbox.EnqueueAsync(OutputHandle.Named("room"), [Some.Message("enqueued")], cancellationToken: TestContext.Current.CancellationToken);

        await Until.TrueAsync(() => plainReceiver.GetStatistics() is { CompletedMessages: 3, BuriedMessages: 1 } && orderedReceiver.GetStatistics() is { CompletedMessages: 3, BuriedMessages: 1 });
        await Until.TrueAsync(() => prefetching.GetStatistics().CompletedMessages == 1);
        await forwarded.WaitForMessagesAsync(1);
        await AdministerAsync(source);
        Assert.All([plainReceiver.Fault, prefetching.Fault, orderedReceiver.Fault, outbox.Fault], Assert.Null);
    }

    [Theory]
    [InlineData("public, pg_catalog", true)]
    [InlineData("batchkit, public, pg_catalog", true)]
    [InlineData("pg_catalog, public", false)]
    [InlineData("public", false)]
    [InlineData("pg_temp, public", false)]
    public async Task A_search_path_in_which_public_comes_before_pg_catalog_is_refused_with_the_remedy(string path, bool isRefused)
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var source = NpgsqlDataSource.Create(new NpgsqlConnectionStringBuilder(schema.DataSource.ConnectionString) { SearchPath = path });
        await using var transport = new PostgresQueueTransport(source, new PostgresOptions { Schema = schema.Name });

        var fault = await transport.FindFaultAsync(TestContext.Current.CancellationToken);

        Assert.Equal(isRefused, fault?.Contains("Put pg_catalog first, or leave it out, in 'Search Path'", StringComparison.Ordinal) == true);
    }

    [Theory]
    [InlineData("repeatable read", true)]
    [InlineData("serializable", true)]
    [InlineData("read committed", false)]
    [InlineData("read uncommitted", false)]
    public async Task A_user_whose_transactions_keep_one_snapshot_is_refused_with_the_remedy(string isolation, bool isRefused)
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var source = NpgsqlDataSource.Create(
            new NpgsqlConnectionStringBuilder(schema.DataSource.ConnectionString) { Options = $"-c default_transaction_isolation={isolation.Replace(" ", "\\ ", StringComparison.Ordinal)}" });
        await using var transport = new PostgresQueueTransport(source, new PostgresOptions { Schema = schema.Name });

        var fault = await transport.FindFaultAsync(TestContext.Current.CancellationToken);

        Assert.Equal(isRefused, fault?.Contains("Options='-c default_transaction_isolation=read\\ committed'", StringComparison.Ordinal) == true);
        Assert.True(isRefused || fault is null, fault);
    }

    [Theory]
    [InlineData("error", true)]
    [InlineData("warning", false)]
    [InlineData("debug5", false)]
    public async Task A_user_who_gets_no_warnings_is_refused_with_the_remedy(string level, bool isRefused)
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var source = NpgsqlDataSource.Create($"{schema.DataSource.ConnectionString};Options=-c client_min_messages={level}");
        await using var transport = new PostgresQueueTransport(source, new PostgresOptions { Schema = schema.Name });

        var fault = await transport.FindFaultAsync(TestContext.Current.CancellationToken);

        Assert.Equal(isRefused, fault?.Contains("Options='-c client_min_messages=warning'", StringComparison.Ordinal) == true);
        Assert.True(isRefused || fault is null, fault);
    }

    private static ScriptedHandler Failing() => new(static (batch, _) =>
    {
        foreach (var message in batch)
        {
            if (Encoding.UTF8.GetString(message.Payload.Span) == "broken")
                message.Refuse("It is broken.");
            else if (message.Attempt == 1 && message.Priority == 0)
                message.Retry("Once more.");
        }

        return ValueTask.CompletedTask;
    });

    private static PostgresQueueReceiverOptions Options(string queue, int shards, int prefetch = 0) => new()
    {
        Queue = queue,
        Shards = shards,
        Prefetch = prefetch,
        Concurrency = 2,
        RetryDelay = TimeSpan.FromMilliseconds(10),
        PollInterval = TimeSpan.FromMilliseconds(20),
        // The claims are renewed meanwhile.
        ClaimTimeLimit = TimeSpan.FromSeconds(1),
    };

    private static MessageBatch[] Batches(ProducerId producer, long number) =>
    [
        Some.Batch(OutputHandle.Named("prefetched"), producer, number++, "plain"),
        .. new[] { "plain", "ordered" }.SelectMany(queue => new[] { "one", "delayed", "unique", "broken" }.Select(text =>
            MessageBatch.Create(OutputHandle.Named(queue), producer, number++, Some.Message(text, HeaderOf(text))))),
    ];

    private static MessageHeader HeaderOf(string text) => text switch
    {
        "delayed" => QueueMessageHeader.Create(key: "a", delay: TimeSpan.FromMilliseconds(50)),
        "unique" => QueueMessageHeader.Create(key: "b", uniqueKey: "unique", priority: 1),
        _ => new MessageHeader { Key = "a" },
    };

    private static async Task AdministerAsync(NpgsqlDataSource source)
    {
        var admin = new PostgresQueueAdmin(source);
        foreach (var queue in new[] { "plain", "ordered" })
        {
            Assert.Single(await admin.ListDeadAsync(queue, cancellationToken: TestContext.Current.CancellationToken));
            Assert.Equal(1, await admin.DeleteDeadAsync(queue, cancellationToken: TestContext.Current.CancellationToken));
            Assert.Equal(0, await admin.ReplayAsync(queue, cancellationToken: TestContext.Current.CancellationToken));
            Assert.False(await admin.CancelAsync(queue, "unique", TestContext.Current.CancellationToken));
            Assert.Equal(0, await admin.PurgeAsync(queue, TestContext.Current.CancellationToken));
            await ReadDepthAsync(source, queue);
        }

        Assert.Equal(4, (await admin.ListAsync(TestContext.Current.CancellationToken)).Count);
    }

    private static async Task ReadDepthAsync(NpgsqlDataSource source, string queue)
    {
        var entry = await new QueueDirectory(source, new Tables("batchkit")).FindOrCreateAsync(queue, shards: 0, TestContext.Current.CancellationToken);
        await using var connection = new CareConnection(source, TimeProvider.System);
        var reader = new QueueDepthReader("batchkit", new PostgresQueueReceiverOptions(), TimeProvider.System);
        await reader.ReadWhenOldAsync(connection, entry, TestContext.Current.CancellationToken);
        Assert.NotNull(reader.Last);
    }

    /// <summary>A database of its own, in whose <c>public</c> a stranger was before the first statement.</summary>
    private sealed class HostileDatabase(PostgresServer server, string name) : IAsyncDisposable
    {
        public string ConnectionString => new NpgsqlConnectionStringBuilder(server.ConnectionString) { Database = name }.ConnectionString;

        public static async Task<HostileDatabase> CreateAsync(PostgresServer server)
        {
            var database = new HostileDatabase(server, $"hostile_{Guid.NewGuid():N}");
            await ExecuteAsync(server.ConnectionString, $"create database {database.Name}");
            await ExecuteAsync(database.ConnectionString, Strangers);
            return database;
        }

        private string Name => name;

        public async ValueTask DisposeAsync() => await ExecuteAsync(server.ConnectionString, $"drop database {name} with (force)");

        private static async Task ExecuteAsync(string connectionString, string sql)
        {
            await using var source = NpgsqlDataSource.Create(connectionString);
            await using var command = source.CreateCommand(sql);
            await command.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);
        }
    }
}

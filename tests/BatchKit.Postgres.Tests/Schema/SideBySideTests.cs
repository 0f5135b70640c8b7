using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Sending;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Tests.Schema;

/// <summary>
/// Processes of the version before run while the tables are migrated, and after it. As long as their statements fit the new tables they go on; else they are refused with an error that names both versions.
/// Nothing is lost either way.
/// </summary>
[Trait("Lane", "night: one rule for each way to connect")]
public sealed class SideBySideTests(PostgresFixture postgres)
{
    // Each table is locked, and the step lasts long enough for statements to wait for it.
    private static readonly SchemaSteps Additive = Steps(static tables =>
        $"""
        alter table {tables.Queues} add column note text not null default 'new';
        alter table {tables.Claims} add column note text not null default 'new';
        alter table {tables.Messages} add column note text not null default 'new';
        create index messages_note on {tables.Messages} (note);
        alter table {tables.Shards} add column note text;
        alter table {tables.Producers} add column note text;
        alter table {tables.Dead} add column note text;
        select pg_sleep(0.2);
        """);

    private static readonly SchemaSteps Renaming = Steps(static tables =>
        $"alter table {tables.Messages} rename column payload to body; alter table {tables.Claims} rename column payloads to bodies; alter table {tables.Producers} rename column number to last;");

    private static readonly SchemaSteps Demanding = Steps(static tables =>
        $"alter table {tables.Messages} add column tenant int; update {tables.Messages} set tenant = 1; alter table {tables.Messages} alter column tenant set not null;");

    [Theory]
    [InlineData(0, 0)]
    [InlineData(0, 200)]
    [InlineData(4, 0)]
    public async Task Producers_and_workers_of_the_version_before_go_on_while_a_migration_runs_and_after_it(int shards, int prefetch)
    {
        await using var version = await VersionBefore.StartAsync(postgres, shards, prefetch);
        await version.WriteUntilHandledAsync(30);

        var migration = version.MigrateAsync(Additive);
        while (!migration.IsCompleted)
            await version.WriteAsync();
        await migration;
        await version.WriteUntilHandledAsync(30);
        await version.InsertAsVersionAfterAsync("of the version after");

        await version.AssertAllHandledAsync(also: "of the version after");
        Assert.Equal([5], await version.Schema.ColumnAsync<int>("select number from {s}.version"));
        Assert.Null(version.Receiver.Fault);
    }

    [Theory]
    [InlineData(0, false)]
    [InlineData(4, false)]
    [InlineData(0, true)]
    public async Task Where_the_new_tables_do_not_fit_the_version_before_is_refused_with_both_versions_and_nothing_is_lost(int shards, bool isDemanding)
    {
        await using var version = await VersionBefore.StartAsync(postgres, shards);
        await version.WriteUntilHandledAsync(10);
        version.Hold();
        await version.WriteAsync();
        await version.WaitUntilHeldAsync();

        await version.MigrateAsync(isDemanding ? Demanding : Renaming);
        version.Release();
        var sending = await version.FailWriteAsync();
        var enqueueing = await Assert.ThrowsAsync<InvalidOperationException>(version.EnqueueUntilTheVersionIsReadAsync);
        if (!isDemanding)
            await Until.TrueAsync(() => NamesBoth(version.Receiver.Fault));

        Assert.True(NamesBoth(sending.Message), sending.Message);
        Assert.True(NamesBoth(enqueueing.Message), enqueueing.Message);
        await version.Schema.ExecuteAsync(isDemanding
            ? "alter table {s}.messages alter column tenant drop not null; update {s}.version set number = 4"
            : "alter table {s}.messages rename column body to payload; alter table {s}.claims rename column bodies to payloads; alter table {s}.producers rename column last to number; update {s}.version set number = 4");
        await version.WriteUntilHandledAsync(10);
        await version.AssertAllHandledAsync();
    }

    [Fact]
    public async Task A_migration_that_the_server_ends_because_of_a_deadlock_is_tried_again()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await MigrateAsync(schema.DataSource, schema, Steps());
        await using var impatient = NpgsqlDataSource.Create($"{schema.DataSource.ConnectionString};Options=-c deadlock_timeout=3s");
        await using var patient = NpgsqlDataSource.Create($"{schema.DataSource.ConnectionString};Options=-c deadlock_timeout=60s");
        await using var worker = await patient.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var work = await worker.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await ExecuteAsync(worker, $"lock table {schema.Quoted}.messages in row exclusive mode");

        var migration = MigrateAsync(impatient, schema, Additive);
        await Until.TrueAsync(async () => await schema.ScalarAsync<long>($"select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%{schema.Name}%'") == 1);
        await ExecuteAsync(worker, $"select count(*) from {schema.Quoted}.claims").WithinDeadline();
        await work.CommitAsync(TestContext.Current.CancellationToken);
        await migration.WithinDeadline();

        Assert.Equal([5], await schema.ColumnAsync<int>("select number from {s}.version"));
    }

    private static bool NamesBoth(string? error) => error is not null && error.Contains("version 5", StringComparison.Ordinal) && error.Contains("version 4", StringComparison.Ordinal);

    private static SchemaSteps Steps(params Func<Tables, string>[] after) => new([FirstVersion.Script, SecondVersion.Script, ThirdVersion.Script, FourthVersion.Script, .. after]);

    private static async Task ExecuteAsync(NpgsqlConnection connection, string sql)
    {
        await using var command = new NpgsqlCommand(sql, connection);
        await command.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);
    }

    private static async Task MigrateAsync(NpgsqlDataSource dataSource, TestSchema schema, SchemaSteps steps)
    {
        await using var connection = await dataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await new SchemaMigration(new Tables(schema.Name), steps).RunAsync(connection, TestContext.Current.CancellationToken);
    }

    /// <summary>A sender, a receiver and an outbox of the version before, as processes that are not restarted have them.</summary>
    private sealed class VersionBefore : IAsyncDisposable
    {
        private const string Queue = "tasks";

        private readonly HoldingHandler _handled = new();
        private readonly CollectingTransport _forwarded = new();
        private readonly ProducerId _producer = Some.Producer();
        private readonly PostgresQueueTransport _transport;
        private readonly PostgresOutbox _outbox;
        private readonly int _shards;
        private readonly List<string> _written = [];
        private readonly List<string> _enqueued = [];

        private VersionBefore(TestSchema schema, int shards, int prefetch)
        {
            (Schema, _shards) = (schema, shards);
            _transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name, QueueShards = { [Queue] = shards } });
            _outbox = new PostgresOutbox(
                schema.DataSource, _forwarded, new PostgresOutboxOptions { Schema = schema.Name, PollInterval = TimeSpan.FromMilliseconds(50), ClaimTimeLimit = TimeSpan.FromSeconds(1) });
            var options = new PostgresQueueReceiverOptions
            {
                Schema = schema.Name,
                Queue = Queue,
                Shards = shards,
                Prefetch = prefetch,
                Concurrency = 2,
                MaxAttempts = 100,
                RetryDelay = TimeSpan.FromMilliseconds(10),
                PollInterval = TimeSpan.FromMilliseconds(50),
                ClaimTimeLimit = TimeSpan.FromSeconds(1),
                ReconnectDelay = TimeSpan.FromMilliseconds(10),
                MaxReconnectDelay = TimeSpan.FromMilliseconds(200),
            };
            Receiver = new PostgresQueueReceiver(schema.DataSource, options, _handled);
        }

        public TestSchema Schema { get; }

        public PostgresQueueReceiver Receiver { get; }

        public static async Task<VersionBefore> StartAsync(PostgresFixture postgres, int shards, int prefetch = 0)
        {
            var schema = await postgres.NewSchemaAsync();
            await SideBySideTests.MigrateAsync(schema.DataSource, schema, Steps());
            var version = new VersionBefore(schema, shards, prefetch);
            await version.Receiver.StartAsync(CancellationToken.None).WithinDeadline();
            await version._outbox.StartAsync(CancellationToken.None).WithinDeadline();
            return version;
        }

        public Task MigrateAsync(SchemaSteps steps) => Task.Run(() => SideBySideTests.MigrateAsync(Schema.DataSource, Schema, steps));

        /// <summary>Writes one message to the queue and one to the outbox, each until it is taken.</summary>
        public async Task WriteAsync()
        {
            var text = $"{_written.Count + 1}";
            var batch = Batch(text);
            while (await TryAsync(() => _transport.SendAsync(new[] { batch }, CancellationToken.None).AsTask()) is not null)
                await Task.Delay(TimeSpan.FromMilliseconds(5));
            _written.Add(text);
            while (await TryAsync(() => EnqueueAsync(text)) is not null)
                await Task.Delay(TimeSpan.FromMilliseconds(5));
            _enqueued.Add(text);
        }

        public async Task WriteUntilHandledAsync(int more)
        {
            for (var wanted = _handled.Count + more; _handled.Count < wanted;)
                await WriteAsync();
        }

        /// <summary>Sends as dispatch does until the failure names the version: the first failure is the server's own.</summary>
        public async Task<Exception> FailWriteAsync()
        {
            var batch = Batch($"{_written.Count + 1}");
            Exception? failure = null;
            await Until.TrueAsync(async () => NamesBoth((failure = await TryAsync(() => _transport.SendAsync(new[] { batch }, CancellationToken.None).AsTask()))?.Message));
            return failure!;
        }

        public Task EnqueueUntilTheVersionIsReadAsync() => EnqueueAsync($"{_enqueued.Count + 1}");

        public Task InsertAsVersionAfterAsync(string text) => Schema.ExecuteAsync(
            $"insert into {{s}}.messages (queue, shard, key, payload, note) select id, {(_shards == 0 ? "null, null" : $"{ShardMap.ShardOf("key", _shards)}, 'key'")}, '{text}', 'note' from {{s}}.queues where name = '{Queue}'");

        public void Hold() => _handled.Hold();

        public void Release() => _handled.Release();

        public Task WaitUntilHeldAsync() => Until.TrueAsync(() => _handled.IsHolding);

        public async Task AssertAllHandledAsync(string? also = null)
        {
            string[] expected = [.. _written, .. also is null ? (string[])[] : [also]];
            await Until.TrueAsync(() => _handled.Texts.Count >= expected.Length);
            await Until.TrueAsync(() => _forwarded.Texts.Distinct(StringComparer.Ordinal).Count() == _enqueued.Count);
            await Until.TrueAsync(async () => await Schema.ScalarAsync<long>("select (select count(*) from {s}.messages) + (select count(*) from {s}.claims) + (select count(*) from {s}.dead)") == 0);
            Assert.Equal(expected.Order(StringComparer.Ordinal), _handled.Texts.Order(StringComparer.Ordinal));
            Assert.Equal(_enqueued, _forwarded.Texts.Distinct(StringComparer.Ordinal));
        }

        public async ValueTask DisposeAsync()
        {
            _handled.Release();
            await Receiver.DisposeAsync();
            await _outbox.DisposeAsync();
            await _transport.DisposeAsync();
            await Schema.DisposeAsync();
        }

        private static async Task<Exception?> TryAsync(Func<Task> call)
        {
            try
            {
                await call().WithinDeadline();
                return null;
            }
            catch (Exception exception) when (exception is IOException or NpgsqlException or InvalidOperationException)
            {
                return exception;
            }
        }

        private MessageBatch Batch(string text) => MessageBatch.Create(OutputHandle.Named(Queue), _producer, _written.Count + 1, Some.Message(text, new MessageHeader { Key = "key" }));

        private Task EnqueueAsync(string text) => _outbox.EnqueueAsync(OutputHandle.Named("room"), [Some.Message(text)], cancellationToken: TestContext.Current.CancellationToken);
    }

    /// <summary>Keeps the texts that it was given, each once, and may hold its messages until it is released.</summary>
    private sealed class HoldingHandler : IMessageHandler<QueueMessage>
    {
        // Guards the fields below.
        private readonly Lock _lock = new();
        private readonly HashSet<string> _texts = new(StringComparer.Ordinal);
        private TaskCompletionSource? _held;
        private bool _isHolding;

        public int Count => Texts.Count;

        public IReadOnlyCollection<string> Texts
        {
            get
            {
                lock (_lock)
                    return [.. _texts];
            }
        }

        public bool IsHolding
        {
            get
            {
                lock (_lock)
                    return _isHolding;
            }
        }

        public void Hold()
        {
            lock (_lock)
                _held = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        }

        public void Release()
        {
            lock (_lock)
            {
                _held?.TrySetResult();
                _held = null;
            }
        }

        public async ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
        {
            Task held;
            lock (_lock)
            {
                held = _held?.Task ?? Task.CompletedTask;
                _isHolding = _held is not null;
            }

            await held.WaitAsync(cancellationToken);
            lock (_lock)
                _texts.UnionWith(batch.Select(static message => System.Text.Encoding.UTF8.GetString(message.Payload.Span)));
        }
    }
}

using BatchKit.Postgres.Ordered;
using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Tests.Ordered;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres.Tests.Receiving;

/// <summary>An exchange whose answer is lost is repeated with its token, and takes over what the lost attempt claimed and settled.</summary>
public sealed class RepeatedExchangeTests(PostgresFixture postgres)
{
    private static readonly ClaimRequest Request = new(Claims: 1, Retries: 0);

    [Theory]
    [InlineData(0, 1)]
    [InlineData(0, 3)]
    [InlineData(4, 1)]
    public async Task A_repeat_returns_what_the_lost_attempt_claimed_and_refuses_nothing_that_it_settled(int shards, int claims)
    {
        await using var scene = await Scene.OpenAsync(postgres, shards);
        await scene.InsertAsync(20);
        var held = (await scene.ExchangeAsync([], Request)).Taken;
        var request = Request with { Claims = claims, Token = 4711 };
        var lost = await scene.ExchangeAsync(held, request);

        var repeated = await scene.ExchangeAsync(held, request with { IsRepeat = true });
        var rest = await scene.ExchangeAsync(repeated.Taken, Request with { Claims = 0 });

        Assert.Equal(claims, lost.Taken.Count);
        Assert.Equal(Tokens(lost), Tokens(repeated));
        Assert.Empty(repeated.Refused);
        Assert.Empty(rest.Refused);
        Assert.Equal(20 - (5 * (claims + 1)), await scene.Schema.ScalarAsync<long>("select (select count(*) from {s}.messages) + (select count(*) from {s}.claims)"));
    }

    [Theory]
    [InlineData(0, false)]
    [InlineData(4, false)]
    [InlineData(0, true)]
    [InlineData(4, true)]
    public async Task A_repeat_waits_for_a_lost_attempt_that_is_still_under_way(int shards, bool isRolledBack)
    {
        await using var scene = await Scene.OpenAsync(postgres, shards);
        await scene.InsertAsync(5);
        await using var lost = await scene.Schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var transaction = await lost.BeginTransactionAsync(TestContext.Current.CancellationToken);
        var taken = (await scene.Store.ExchangeAsync(lost, [], Request with { Token = 4711 }, CancellationToken.None)).Taken;
        // Something else for a repeat that does not wait.
        await scene.InsertAsync(5);

        var repeating = scene.ExchangeAsync([], Request with { Token = 4711, IsRepeat = true });
        await Until.TrueAsync(async () => await scene.Schema.ScalarAsync<long>($"select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%{scene.Schema.Name}%'") == 1);
        await (isRolledBack ? transaction.RollbackAsync(TestContext.Current.CancellationToken) : transaction.CommitAsync(TestContext.Current.CancellationToken));
        var repeated = await repeating;

        if (!isRolledBack)
            Assert.Equal(taken.Select(static claim => claim.Token), Tokens(repeated));
        Assert.Single(repeated.Taken);
        Assert.Equal(1L, await scene.Schema.ScalarAsync<long>("select (select count(*) from {s}.claims) + (select count(*) from {s}.shards where until is not null)"));
    }

    [Theory]
    [InlineData(0, 1, 1)]
    [InlineData(0, 4, 1)]
    [InlineData(0, 4, 2)]
    [InlineData(4, 1, 1)]
    public async Task A_receiver_whose_answers_are_lost_handles_each_message_once_counts_it_and_warns_of_no_loss(int shards, int workers, int lostInTurn)
    {
        await using var scene = await Scene.OpenAsync(postgres, shards);
        scene.Options.Concurrency = workers;
        await scene.InsertAsync(20);
        var log = new LogCollector();
        var logger = new Logger<PostgresQueueReceiver>(log);
        var counters = new ReceiverCounters();
        var handler = new KeepingHandler();
        using var stop = new StopPhases();
        var health = new ReceiverHealth(scene.Schema.DataSource, scene.Options, logger, new ConnectionReporter(changed: null, "receiver", "server", metrics: null, "postgresql", scene.Options.Queue));
        var store = new LosingStore(scene.Store, lostInTurn);
        await using var parts = new ReceiverParts(scene.Schema.DataSource, scene.Options, store, counters, health, new Intake(scene.Options), stop, TimeProvider.System, logger);

        var running = new ReceiverSession(parts, handler, scene.Queue).RunAsync();
        await handler.WaitForAsync(20);
        await Until.TrueAsync(() => counters.Read().CompletedMessages == 20);
        await parts.Stop.StopAsync();
        await running.WithinDeadline();

        Assert.InRange(store.Lost, 2, int.MaxValue);
        Assert.Equal(20, handler.Texts.Distinct(StringComparer.Ordinal).Count());
        Assert.Equal((20, 0), (handler.Texts.Count(), counters.Read().LostMessages));
        Assert.Equal((0, 0), (log.Count(2627), log.Count(2628)));
        Assert.Equal(0L, await scene.Schema.ScalarAsync<long>("select (select count(*) from {s}.messages) + (select count(*) from {s}.claims) + (select count(*) from {s}.dead)"));
    }

    private static IEnumerable<long> Tokens(ClaimExchange exchange) => exchange.Taken.Select(static claim => claim.Token).Order();

    /// <summary>A queue of one of both kinds, whose batches have five messages.</summary>
    private sealed class Scene : IAsyncDisposable
    {
        private readonly NpgsqlConnection _connection;

        private Scene(TestSchema schema, NpgsqlConnection connection, QueueEntry queue, PostgresQueueReceiverOptions options)
        {
            (Schema, _connection, Queue, Options) = (schema, connection, queue, options);
            var tables = new Tables(schema.Name);
            Store = queue.Shards == 0 ? new ClaimStore(tables, queue, options, "worker") : new ShardStore(tables, queue, options, "worker", new LogCollector().CreateLogger("ordered"));
        }

        public TestSchema Schema { get; }

        public QueueEntry Queue { get; }

        public PostgresQueueReceiverOptions Options { get; }

        public IClaimStore Store { get; }

        public static async Task<Scene> OpenAsync(PostgresFixture postgres, int shards)
        {
            var schema = await postgres.NewSchemaAsync();
            await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name, TestContext.Current.CancellationToken);
            // One attempt: a claim that no one knows of would bury its messages unseen.
            var options = new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = "tasks", Shards = shards, Concurrency = 1, BatchSize = 5, MaxAttempts = 1, ReconnectDelay = TimeSpan.FromMilliseconds(10) };
            var queue = await new QueueDirectory(schema.DataSource, new Tables(schema.Name)).FindOrCreateAsync(options.Queue, shards, TestContext.Current.CancellationToken);
            return new Scene(schema, await schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken), queue, options);
        }

        public Task<ClaimExchange> ExchangeAsync(IReadOnlyList<Claim> settled, ClaimRequest request) => Store.ExchangeAsync(_connection, settled, request, CancellationToken.None);

        public Task InsertAsync(int count) => Schema.ExecuteAsync(
            $"insert into {{s}}.messages (queue, shard, key, payload) select id, {(Queue.Shards == 0 ? "null, null" : "n % 2, 'key ' || n % 2")}, n::text::bytea from {{s}}.queues, generate_series(1, {count}) as n");

        public async ValueTask DisposeAsync()
        {
            await _connection.DisposeAsync();
            await Schema.DisposeAsync();
        }
    }

    /// <summary>Loses the answers of so many exchanges, after their commit, and answers the next one.</summary>
    private sealed class LosingStore(IClaimStore inner, int lostInTurn) : IClaimStore
    {
        private int _exchanges;
        private int _lost;

        public int MostClaims => inner.MostClaims;

        public int Lost => _lost;

        public async Task<ClaimExchange> ExchangeAsync(NpgsqlConnection connection, IReadOnlyList<Claim> settled, ClaimRequest request, CancellationToken cancellationToken)
        {
            var exchange = await inner.ExchangeAsync(connection, settled, request, cancellationToken);
            if (Interlocked.Increment(ref _exchanges) % (lostInTurn + 1) == 0)
                return exchange;
            Interlocked.Increment(ref _lost);
            throw new NpgsqlException("The answer is lost.", new TimeoutException());
        }

        public Task<(ulong Transaction, bool IsSettled)> SettleAsync(NpgsqlTransaction transaction, Claim claim, CancellationToken cancellationToken) => inner.SettleAsync(transaction, claim, cancellationToken);

        public Task<IReadOnlyList<Claim>> RenewAsync(NpgsqlConnection connection, IReadOnlyList<Claim> held, CancellationToken cancellationToken) => inner.RenewAsync(connection, held, cancellationToken);

        public Task<UpkeepReport> UpkeepAsync(NpgsqlConnection connection, CancellationToken cancellationToken) => inner.UpkeepAsync(connection, cancellationToken);
    }
}

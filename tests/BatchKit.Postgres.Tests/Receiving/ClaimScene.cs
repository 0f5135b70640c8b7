using System.Text;
using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Schema;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.Postgres.Tests.Receiving;

/// <summary>A queue without order in a schema of its own, and a worker's connection to it.</summary>
internal sealed class ClaimScene : IAsyncDisposable
{
    public const string QueueName = "tasks";

    private ClaimScene(TestSchema schema, NpgsqlConnection connection, QueueEntry queue, PostgresQueueReceiverOptions options)
    {
        Schema = schema;
        Connection = connection;
        Queue = queue;
        Options = options;
        Store = StoreOf("worker-1");
    }

    public TestSchema Schema { get; }

    public NpgsqlConnection Connection { get; }

    public QueueEntry Queue { get; }

    public PostgresQueueReceiverOptions Options { get; }

    public ClaimStore Store { get; }

    public static async Task<ClaimScene> OpenAsync(PostgresFixture fixture, Action<PostgresQueueReceiverOptions>? configure = null)
    {
        var schema = await fixture.NewSchemaAsync();
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name);
        var id = await schema.ScalarAsync<int>($"insert into {{s}}.queues (name) values ('{QueueName}') returning id");
        var options = new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = QueueName };
        configure?.Invoke(options);
        return new ClaimScene(schema, await schema.DataSource.OpenConnectionAsync(), new QueueEntry(id, QueueName, Shards: 0), options);
    }

    public static string TextOf(QueueMessage message) => Encoding.UTF8.GetString(message.Payload.Span);

    public static string[] TextsOf(Claim claim) => [.. claim.Batch.Select(TextOf)];

    public ClaimStore StoreOf(string worker) => new(new Tables(Schema.Name), Queue, Options, worker);

    public Task InsertAsync(params string[] texts) => InsertAsync(rank: 0, texts);

    public async Task InsertAsync(int rank, params string[] texts)
    {
        foreach (var text in texts)
            await Schema.ExecuteAsync($"insert into {{s}}.messages (queue, rank, payload) values ({Queue.Id}, {rank}, '{text}'::bytea)");
    }

    /// <summary>Inserts a message for each number from one on.</summary>
    public Task InsertNumbersAsync(int count) =>
        Schema.ExecuteAsync($"insert into {{s}}.messages (queue, payload) select {Queue.Id}, convert_to(number::text, 'UTF8') from generate_series(1, {count}) as number");

    public async Task InsertUniqueAsync(string text, string key)
    {
        await Schema.ExecuteAsync($"insert into {{s}}.unique_keys values ({Queue.Id}, '{key}')");
        await Schema.ExecuteAsync($"insert into {{s}}.messages (queue, unique_key, payload) values ({Queue.Id}, '{key}', '{text}'::bytea)");
    }

    public Task InsertDelayedAsync(string text, TimeSpan delay) =>
        Schema.ExecuteAsync($"insert into {{s}}.messages (queue, due_at, payload) values ({Queue.Id}, now() + interval '{delay.TotalMilliseconds} ms', '{text}'::bytea)");

    public Task InsertRetryAsync(string text, int attempts) =>
        Schema.ExecuteAsync($"insert into {{s}}.messages (queue, due_at, attempts, payload) values ({Queue.Id}, now(), {attempts}, '{text}'::bytea)");

    public async Task<Claim?> ClaimAsync(bool retriesFirst = false, ClaimStore? store = null)
    {
        var exchange = await (store ?? Store).ExchangeAsync(Connection, [], new ClaimRequest(Claims: 1, retriesFirst ? 1 : 0), CancellationToken.None);
        return exchange.Taken.Count == 0 ? null : exchange.Taken[0];
    }

    /// <summary>Settles them; returns those that were refused.</summary>
    public async Task<IReadOnlyList<Claim>> SettleAsync(params Claim[] claims) =>
        (await Store.ExchangeAsync(Connection, claims, new ClaimRequest(Claims: 0, Retries: 0), CancellationToken.None)).Refused;

    public Task<UpkeepReport> UpkeepAsync() => Store.UpkeepAsync(Connection, CancellationToken.None);

    /// <summary>Ends all claims, as their time limit does.</summary>
    public Task EndClaimsAsync() => Schema.ExecuteAsync("update {s}.claims set until = now() - interval '1 minute'");

    public async Task<string> WaitingAsync() =>
        string.Join(' ', await Schema.ColumnAsync<string>("select convert_from(payload, 'UTF8') || ':' || attempts || case when due_at is null then '' else '~' end from {s}.messages order by id"));

    public async Task<string> DeadAsync() =>
        string.Join(' ', await Schema.ColumnAsync<string>("select convert_from(payload, 'UTF8') || ':' || attempts from {s}.dead order by id"));

    public Task<long> CountAsync(string table) => Schema.ScalarAsync<long>($"select count(*) from {{s}}.{table}");

    public async ValueTask DisposeAsync()
    {
        await Connection.DisposeAsync();
        await Schema.DisposeAsync();
    }
}

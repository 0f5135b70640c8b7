using System.Text;
using BatchKit.Postgres.Ordered;
using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Sending;
using BatchKit.TestServers.Postgres;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Npgsql;

namespace BatchKit.Postgres.Tests.Ordered;

/// <summary>An ordered queue in a schema of its own, whose clock the tests set by moving what is stored.</summary>
internal sealed class OrderedQueue : IAsyncDisposable
{
    private readonly TestSchema _schema;
    private readonly NpgsqlConnection _connection;
    private readonly PostgresQueueReceiverOptions _options;
    private readonly QueueEntry _entry;

    private OrderedQueue(TestSchema schema, NpgsqlConnection connection, PostgresQueueReceiverOptions options, QueueEntry entry)
    {
        (_schema, _connection, _options, _entry) = (schema, connection, options, entry);
        Store = MakeStore("worker 1");
    }

    public TestSchema Schema => _schema;

    public Tables Tables => new(_schema.Name);

    public QueueEntry Entry => _entry;

    public ShardStore Store { get; }

    /// <summary>Makes the tables in a schema of its own, or again in one that was dropped.</summary>
    public static async Task<OrderedQueue> OpenAsync(PostgresServer server, int shards = 1, Action<PostgresQueueReceiverOptions>? configure = null, string? name = null)
    {
        var schema = TestSchema.On(server, name);
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name, TestContext.Current.CancellationToken);
        var options = new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = "ordered", Shards = shards };
        configure?.Invoke(options);
        var connection = await schema.DataSource.OpenConnectionAsync();
        var entry = await new QueueDirectory(schema.DataSource, new Tables(schema.Name)).FindOrCreateAsync(options.Queue, shards, CancellationToken.None);
        return new OrderedQueue(schema, connection, options, entry);
    }

    public ShardStore MakeStore(string worker, ILogger? logger = null) => new(Tables, _entry, _options, worker, logger ?? NullLogger.Instance);

    /// <summary>Adds messages, as <c>key:text</c> each; one without a colon has no key.</summary>
    public async Task AddAsync(params string[] messages)
    {
        var parted = messages.Select(message => message.Split(':')).ToArray();
        var keys = parted.Select(parts => parts.Length > 1 ? parts[0] : null).ToArray();
        await using var command = new NpgsqlCommand(
            $"insert into {Tables.Messages} (queue, shard, key, payload) select $1, u.shard, u.key, u.payload from unnest($2, $3, $4) with ordinality as u(shard, key, payload, place) order by place",
            _connection)
        {
            Parameters =
            {
                new() { Value = _entry.Id },
                new() { Value = keys.Select(key => (short)ShardMap.ShardOf(key, _entry.Shards)).ToArray() },
                new() { Value = keys },
                new() { Value = parted.Select(parts => Encoding.UTF8.GetBytes(parts[^1])).ToArray() },
            },
        };
        await command.ExecuteNonQueryAsync();
    }

    /// <summary>Takes the next batch; null when there is none.</summary>
    public async Task<Claim?> TakeAsync(ShardStore? store = null) => (await ExchangeAsync([], store: store)).Taken.SingleOrDefault();

    /// <summary>Settles a batch, and takes the next; null when there is none.</summary>
    public async Task<Claim?> SettleAndTakeAsync(Claim claim)
    {
        var exchange = await ExchangeAsync([claim]);
        Assert.Empty(exchange.Refused);
        return exchange.Taken.SingleOrDefault();
    }

    public async Task<ClaimExchange> ExchangeAsync(IReadOnlyList<Claim> settled, int claims = 1, ShardStore? store = null) =>
        await (store ?? Store).ExchangeAsync(_connection, settled, new ClaimRequest(claims, Retries: 0), CancellationToken.None);

    public Task<UpkeepReport> UpkeepAsync() => Store.UpkeepAsync(_connection, CancellationToken.None);

    public Task<IReadOnlyList<Claim>> RenewAsync(params Claim[] held) => Store.RenewAsync(_connection, held, CancellationToken.None);

    /// <summary>Lets all leases run out.</summary>
    public Task ExpireAsync() => _schema.ExecuteAsync("update {s}.shards set until = now() - interval '1 s' where until is not null");

    /// <summary>Makes due what waits.</summary>
    public async Task MakeDueAsync()
    {
        await _schema.ExecuteAsync("update {s}.messages set due_at = now() where due_at is not null and due_at < 'infinity'");
        await UpkeepAsync();
    }

    /// <summary>Ends the turns of all workers with their shards.</summary>
    public Task EndTurnsAsync() => _schema.ExecuteAsync("update {s}.shards set turn_at = turn_at - interval '1 h' where turn_at is not null");

    public Task<List<string>> StoredAsync() => _schema.ColumnAsync<string>("select convert_from(payload, 'UTF8') || ' ' || attempts from {s}.messages order by id");

    public Task<List<string>> DeadAsync() => _schema.ColumnAsync<string>("select convert_from(payload, 'UTF8') || ' ' || attempts || ' ' || error from {s}.dead order by id");

    public static string[] Texts(Claim? claim) => claim is null ? [] : [.. claim.Batch.Select(Text)];

    public static string Text(QueueMessage message) => Encoding.UTF8.GetString(message.Payload.Span);

    public async ValueTask DisposeAsync()
    {
        await _connection.DisposeAsync();
        await _schema.DisposeAsync();
    }
}

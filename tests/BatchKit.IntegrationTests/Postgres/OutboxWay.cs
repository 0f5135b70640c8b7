using BatchKit.Postgres;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>An outbox in a schema of its own, a transport behind it that may be made to fail, and a far receiver that drops what comes twice. Disposing stops it, and drops the schema.</summary>
internal sealed class OutboxWay : IAsyncDisposable
{
    private OutboxWay(TestSchema schema)
    {
        Schema = schema;
        Far = new InMemoryTransport(Arrived);
        Inner = new ScriptedTransport(Far);
        Outbox = Make();
    }

    public TestSchema Schema { get; }

    /// <summary>What came out at the far end.</summary>
    public CollectingTransport Arrived { get; } = new();

    /// <summary>The way from the outbox to the far end.</summary>
    public InMemoryTransport Far { get; }

    /// <summary>What the outbox sends on with.</summary>
    public ScriptedTransport Inner { get; }

    /// <summary>Not started.</summary>
    public PostgresOutbox Outbox { get; }

    public LogCollector Log { get; } = new();

    public static async Task<OutboxWay> CreateAsync(PostgresFixture fixture) => new(await fixture.NewSchemaAsync());

    /// <summary>Creates one in a schema, which it then owns.</summary>
    public static OutboxWay On(TestSchema schema) => new(schema);

    /// <summary>Another outbox on the same rows, not started.</summary>
    public PostgresOutbox Make(IBatchTransport? inner = null, Action<PostgresOutboxOptions>? configure = null)
    {
        var options = new PostgresOutboxOptions { Schema = Schema.Name, PollInterval = TimeSpan.FromMilliseconds(100) };
        configure?.Invoke(options);
        return new PostgresOutbox(Schema.DataSource, inner ?? Inner, options, logger: new Logger<PostgresOutbox>(Log));
    }

    public Task StartAsync() => Outbox.StartAsync(CancellationToken.None).WithinDeadline();

    /// <summary>Stores lines for a handle, in a transaction of their own, and ends it.</summary>
    public async Task EnqueueAsync(OutputHandle handle, bool commits, params string[] lines)
    {
        await using var connection = await Schema.DataSource.OpenConnectionAsync();
        await using var transaction = await connection.BeginTransactionAsync();
        await Outbox.EnqueueAsync(handle, Array.ConvertAll(lines, line => Some.Message(line)), transaction);
        await (commits ? transaction.CommitAsync() : transaction.RollbackAsync());
    }

    public Task<long> CountStoredAsync() => Schema.ScalarAsync<long>("select count(*) from {s}.messages");

    /// <summary>Waits until so many messages have arrived.</summary>
    public Task WaitForAsync(int messages) => Arrived.WaitForMessagesAsync(messages);

    /// <summary>Waits until no row waits.</summary>
    public Task WaitUntilEmptyAsync() => Until.TrueAsync(async () => await CountStoredAsync() == 0);

    public async ValueTask DisposeAsync()
    {
        await Outbox.DisposeAsync();
        await Far.DisposeAsync();
        await Schema.DisposeAsync();
    }
}

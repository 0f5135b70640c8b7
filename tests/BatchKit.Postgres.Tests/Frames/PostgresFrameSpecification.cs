using BatchKit.Postgres.Frames;
using BatchKit.Testing.Specification;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Tests.Frames;

/// <summary>Frame mode keeps the rules of a transport, on the real server.</summary>
public class PostgresFrameSpecification(PostgresFixture fixture) : TransportSpecification
{
    private const string Queue = "frames";

    private readonly List<object> _options = [];

    protected PostgresFixture Fixture { get; } = fixture;

    /// <summary>What the transport and its receiver were made from.</summary>
    protected IReadOnlyList<object> Options => [.. _options];

    /// <summary>True over a pooler in transaction mode, with the settings that are documented for it.</summary>
    protected virtual bool IsPooled => false;

    protected override TransportPromises Promises => TransportPromises.Ordered | TransportPromises.Once;

    protected override int Cancellations => TestSupport.Cancellations.Count();

    protected override async ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop)
    {
        var schema = await Fixture.NewSchemaAsync();
        var dataSource = NpgsqlDataSource.Create(IsPooled ? (await Fixture.GetPoolerAsync()).ConnectionString : schema.DataSource.ConnectionString);
        var receiver = await ReceiveAsync(schema, dataSource, nextHop);
        return new PostgresHarness(schema, CreateTransport(schema, dataSource), receiver, Options, dataSource);
    }

    protected PostgresQueueTransport CreateTransport(TestSchema schema, NpgsqlDataSource dataSource)
    {
        var options = new PostgresOptions { Schema = schema.Name, FrameQueue = Queue, UsePreparedStatements = !IsPooled };
        _options.Add(options);
        return new PostgresQueueTransport(dataSource, options, Surroundings.TimeProvider, Surroundings.CreateLogger<PostgresQueueTransport>());
    }

    protected async Task<PostgresQueueReceiver> ReceiveAsync(TestSchema schema, NpgsqlDataSource dataSource, IBatchTransport nextHop)
    {
        var retries = new BatchReceiverOptions { RetryDelay = TimeSpan.FromMilliseconds(1), MaxRetryDelay = TimeSpan.FromMilliseconds(5) };
        var options = new PostgresQueueReceiverOptions
        {
            Schema = schema.Name,
            Queue = Queue,
            Shards = 1,
            Concurrency = 1,
            Poison = PoisonPolicy.Block,
            ClaimTimeLimit = TimeSpan.FromSeconds(5),
            UsePreparedStatements = !IsPooled,
            ListenConnectionString = IsPooled ? schema.DataSource.ConnectionString : null,
        };
        var batches = new BatchReceiver(nextHop, retries, Surroundings.TimeProvider, Surroundings.CreateLogger<BatchReceiver>());
        var handler = new FrameHandler(batches, Surroundings.TimeProvider, Surroundings.CreateLogger<PostgresQueueReceiver>());
        var receiver = new PostgresQueueReceiver(dataSource, options, handler, Surroundings.TimeProvider, Surroundings.CreateLogger<PostgresQueueReceiver>());
        _options.AddRange([retries, options]);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        Assert.Null(receiver.Fault);
        return receiver;
    }
}

/// <summary>The same through PgBouncer in transaction mode.</summary>
[Trait("Lane", "night: one rule for each way to connect")]
public sealed class PooledFrameSpecification(PostgresFixture fixture) : PostgresFrameSpecification(fixture)
{
    protected override bool IsPooled => true;
}

/// <summary>An outbox in front of frame mode keeps the same rules.</summary>
[Trait("Lane", "night: one rule for each way to connect")]
public class PostgresOutboxSpecification(PostgresFixture fixture) : PostgresFrameSpecification(fixture)
{
    protected override async ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop)
    {
        var schema = await Fixture.NewSchemaAsync();
        var dataSource = NpgsqlDataSource.Create(IsPooled ? (await Fixture.GetPoolerAsync()).ConnectionString : schema.DataSource.ConnectionString);
        var receiver = await ReceiveAsync(schema, dataSource, nextHop);
        var inner = CreateTransport(schema, dataSource);
        var options = new PostgresOutboxOptions
        {
            Schema = schema.Name,
            UsePreparedStatements = !IsPooled,
            ListenConnectionString = IsPooled ? schema.DataSource.ConnectionString : null,
        };
        var outbox = new PostgresOutbox(dataSource, inner, options, Surroundings.TimeProvider, Surroundings.CreateLogger<PostgresOutbox>());
        await outbox.StartAsync(CancellationToken.None).WithinDeadline();
        return new PostgresHarness(schema, outbox, receiver, [.. Options, options], inner, dataSource);
    }
}

/// <summary>The same through PgBouncer in transaction mode.</summary>
[Trait("Lane", "night: one rule for each way to connect")]
public sealed class PooledOutboxSpecification(PostgresFixture fixture) : PostgresOutboxSpecification(fixture)
{
    protected override bool IsPooled => true;
}

/// <summary>A transport and its receiver over one schema, and what else must be disposed before the schema.</summary>
internal sealed class PostgresHarness(TestSchema schema, IBatchTransport transport, PostgresQueueReceiver receiver, IReadOnlyList<object> options, params IAsyncDisposable[] others)
    : TransportHarness
{
    public override IBatchTransport Transport => transport;

    public override IReadOnlyList<object> Options => options;

    public override ValueTask DisposeTransportAsync() => ((IAsyncDisposable)transport).DisposeAsync();

    public override async ValueTask DisposeAsync()
    {
        await DisposeTransportAsync();
        await receiver.DisposeAsync();
        foreach (var other in others)
            await other.DisposeAsync();
        await schema.DisposeAsync();
    }
}

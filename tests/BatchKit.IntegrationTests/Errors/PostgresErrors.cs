using BatchKit.Postgres;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Npgsql;

namespace BatchKit.IntegrationTests.Errors;

/// <summary>Errors between a process and PostgreSQL.</summary>
internal static class PostgresErrors
{
    private static readonly OutputHandle Tasks = OutputHandle.Named("tasks");

    public static async Task CollectAsync(PostgresServer server, ErrorCollector errors)
    {
        await using var schema = TestSchema.On(server);
        errors.Name(schema.Name, "SCHEMA");
        await errors.CatchAsync("No data source in the services", static () => StartAsync(static builder => builder.UsePostgres()));
        errors.Catch("Two receivers of one queue", static () => new ServiceCollection().AddPostgresQueueReceiver("tasks", static _ => null!).AddPostgresQueueReceiver("tasks", static _ => null!));
        await CollectConnectingAsync(server, errors);
        await errors.CatchAsync("A schema that is missing", () => SendAsync(schema, Tasks, static options => options.CreateSchema = false));
        await errors.CatchAsync("Output for a connection without a queue of frames", () => SendAsync(schema, OutputHandle.Connection(9, 1)));
        await errors.CatchAsync("A queue with a long name", () => SendAsync(schema, OutputHandle.Named(new string('q', 2000))));
        await errors.CatchAsync("A batch above the largest statement", () => SendAsync(schema, Tasks, static options => options.MaxStatementBytes = 4096, bytes: 5000));
        await SendAsync(schema, Tasks);
        await errors.CatchAsync("Shards for a queue without order", () => SendAsync(schema, Tasks, static options => options.Shards = 4));
        await errors.CatchAsync("A queue without order as a queue of frames", () => SendAsync(schema, Tasks, static options => options.FrameQueue = "tasks"));
        var admin = new PostgresQueueAdmin(schema.DataSource, schema.Name);
        await errors.CatchAsync("A queue that does not exist", () => admin.ReplayAsync("taks"));
        await CollectOutboxAsync(schema, errors);
        await schema.ExecuteAsync("update {s}.version set number = 1000");
        await errors.CatchAsync("A schema of a later version", () => SendAsync(schema, Tasks));
    }

    private static async Task CollectConnectingAsync(PostgresServer server, ErrorCollector errors)
    {
        var text = new NpgsqlConnectionStringBuilder(server.ConnectionString);
        var closed = FreePort.Take(1)[0];
        errors.Name(closed, "PORT");
        errors.Name(text.Port, "PORT");
        await errors.CatchAsync("No server at the address", () => SendAsync(new NpgsqlConnectionStringBuilder(server.ConnectionString) { Host = "127.0.0.1", Port = closed }));
        await errors.CatchAsync("A database that does not exist", () => SendAsync(new NpgsqlConnectionStringBuilder(server.ConnectionString) { Database = "nowhere" }));
        await errors.CatchAsync("A data source that multiplexes", () => SendAsync(new NpgsqlConnectionStringBuilder($"{server.ConnectionString};Multiplexing=true")));
        await errors.CatchAsync("A search path with pg_catalog behind another schema", () => SendAsync(new NpgsqlConnectionStringBuilder(server.ConnectionString) { SearchPath = "public, pg_catalog" }));
        await errors.CatchAsync("A slim data source without arrays", async () =>
        {
            await using var dataSource = new NpgsqlSlimDataSourceBuilder(server.ConnectionString).Build();
            await SendAsync(dataSource);
        });
    }

    private static async Task CollectOutboxAsync(TestSchema schema, ErrorCollector errors)
    {
        await using var outbox = new PostgresOutbox(schema.DataSource, new CollectingTransport(maxMessageBytes: 100), new PostgresOutboxOptions { Schema = schema.Name });
        await using var misnamed = new PostgresOutbox(schema.DataSource, new CollectingTransport(), new PostgresOutboxOptions { Schema = schema.Name, Name = "tasks" });
        await errors.CatchAsync("An enqueue of nothing", () => outbox.EnqueueAsync(Tasks, []));
        await errors.CatchAsync("An enqueue without a handle", () => outbox.EnqueueAsync(default, [new BatchMessage("x"u8.ToArray())]));
        await errors.CatchAsync("An enqueue of a message that is too large", () => outbox.EnqueueAsync(Tasks, [new BatchMessage(new byte[200])]));
        await errors.CatchAsync("An outbox with a queue's name", () => misnamed.EnqueueAsync(Tasks, [new BatchMessage("x"u8.ToArray())]));
    }

    private static async Task SendAsync(NpgsqlConnectionStringBuilder address)
    {
        await using var dataSource = NpgsqlDataSource.Create(address);
        await SendAsync(dataSource);
    }

    private static async Task SendAsync(NpgsqlDataSource dataSource)
    {
        await using var transport = new PostgresQueueTransport(dataSource);
        await transport.SendAsync(new[] { BatchFor(Tasks, bytes: 1) }, CancellationToken.None);
    }

    private static async Task SendAsync(TestSchema schema, OutputHandle handle, Action<PostgresOptions>? change = null, int bytes = 1)
    {
        var options = new PostgresOptions { Schema = schema.Name };
        change?.Invoke(options);
        await using var transport = new PostgresQueueTransport(schema.DataSource, options);
        await transport.SendAsync(new[] { BatchFor(handle, bytes) }, CancellationToken.None);
    }

    private static MessageBatch BatchFor(OutputHandle handle, int bytes) => MessageBatch.Create(handle, new ProducerId(1, 1, 0), 1, new BatchMessage(new byte[bytes]));

    private static async Task StartAsync(Action<BatchKitBuilder> register)
    {
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        register(builder.Services.AddBatchKit());
        using var host = builder.Build();
        await host.StartAsync();
    }
}

using System.Text;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres.Tests.Sending;

/// <summary>A transport on a schema of its own, and what it has stored there; its pool may go over a proxy.</summary>
internal sealed class SendingPlace : IAsyncDisposable
{
    private readonly NpgsqlDataSource _dataSource;

    private SendingPlace(TestSchema schema, TcpProxy? proxy, NpgsqlDataSource dataSource, PostgresOptions options)
    {
        (Schema, Proxy, _dataSource) = (schema, proxy, dataSource);
        Transport = new PostgresQueueTransport(dataSource, options, logger: new Logger<PostgresQueueTransport>(Log));
    }

    public TestSchema Schema { get; }

    public TcpProxy? Proxy { get; }

    public LogCollector Log { get; } = new();

    public PostgresQueueTransport Transport { get; }

    public ProducerId Producer { get; } = Some.Producer();

    public static async Task<SendingPlace> MakeAsync(PostgresFixture postgres, Action<PostgresOptions>? configure = null) =>
        Make(await postgres.NewSchemaAsync(), proxy: null, settings: "", configure);

    public static async Task<SendingPlace> MakeOverProxyAsync(PostgresFixture postgres, Action<PostgresOptions>? configure = null, string settings = "")
    {
        var server = await postgres.GetAsync();
        return Make(TestSchema.On(server), TcpProxy.Start(server.Host, server.Port), settings, configure);
    }

    public static SendingPlace Make(TestSchema schema, TcpProxy? proxy = null, string settings = "", Action<PostgresOptions>? configure = null)
    {
        var address = new NpgsqlConnectionStringBuilder($"{schema.DataSource.ConnectionString};{settings}");
        if (proxy is not null)
            (address.Host, address.Port) = ("127.0.0.1", proxy.Port);
        var options = new PostgresOptions { Schema = schema.Name };
        configure?.Invoke(options);
        return new SendingPlace(schema, proxy, NpgsqlDataSource.Create(address), options);
    }

    public MessageBatch Batch(string queue, long number, params string[] texts) => Some.Batch(OutputHandle.Named(queue), Producer, number, texts);

    public MessageBatch Batch(string queue, long number, params BatchMessage[] messages) => MessageBatch.Create(OutputHandle.Named(queue), Producer, number, messages);

    public Task SendAsync(params MessageBatch[] batches) => Transport.SendAsync(batches, TestContext.Current.CancellationToken).WithinDeadline();

    /// <summary>What a send that fails in part says.</summary>
    public async Task<BatchSendException> FailAsync(params MessageBatch[] batches) => await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(batches));

    /// <summary>What a send of one batch that is not taken at all says.</summary>
    public Task<IOException> FailSendAsync(long number, string text) => Assert.ThrowsAsync<IOException>(() => SendAsync(Batch("tasks", number, text)));

    /// <summary>Sends one batch as dispatch does: unchanged, until it is taken.</summary>
    public async Task RetrySendAsync(long number, string text)
    {
        using var deadline = new CancellationTokenSource(Deadline.Time);
        while (true)
        {
            try
            {
                await SendAsync(Batch("tasks", number, text));
                return;
            }
            catch (IOException) when (!deadline.IsCancellationRequested)
            {
                await Task.Delay(TimeSpan.FromMilliseconds(5), TestContext.Current.CancellationToken);
            }
        }
    }

    /// <summary>All rows, in the order of their numbers.</summary>
    public async Task<IReadOnlyList<StoredRow>> RowsAsync()
    {
        await using var command = Schema.DataSource.CreateCommand(
            $"select q.name, m.rank, extract(epoch from m.due_at - m.enqueued_at)::float8, m.shard, m.key, m.unique_key, m.header, m.payload from {Schema.Quoted}.messages as m "
            + $"join {Schema.Quoted}.queues as q on q.id = m.queue order by m.id");
        await using var reader = await command.ExecuteReaderAsync();
        var rows = new List<StoredRow>();
        while (await reader.ReadAsync())
        {
            rows.Add(new StoredRow(reader.GetString(0), reader.GetInt16(1), Nullable<double>(reader, 2), Nullable<short>(reader, 3), Text(reader, 4), Text(reader, 5),
                reader.IsDBNull(6) ? null : reader.GetFieldValue<byte[]>(6), reader.GetFieldValue<byte[]>(7)));
        }

        return rows;
    }

    public async Task<IReadOnlyList<string>> TextsAsync() => [.. (await RowsAsync()).Select(row => row.Text)];

    /// <summary>Completes once a statement of this schema waits for a lock.</summary>
    public Task WaitForLockedAsync() => Until.TrueAsync(async () =>
        await Schema.ScalarAsync<long>($"select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%{Schema.Name}%'") > 0);

    public async ValueTask DisposeAsync()
    {
        await Transport.DisposeAsync();
        await _dataSource.DisposeAsync();
        if (Proxy is not null)
            await Proxy.DisposeAsync();
        await Schema.DisposeAsync();
    }

    private static T? Nullable<T>(NpgsqlDataReader reader, int column)
        where T : struct => reader.IsDBNull(column) ? null : reader.GetFieldValue<T>(column);

    private static string? Text(NpgsqlDataReader reader, int column) => reader.IsDBNull(column) ? null : reader.GetString(column);
}

/// <summary>A row of the messages' table, as a test looks at it.</summary>
internal sealed record StoredRow(string Queue, short Rank, double? DelaySeconds, short? Shard, string? Key, string? UniqueKey, byte[]? Header, byte[] Payload)
{
    public string Text => Encoding.UTF8.GetString(Payload);
}

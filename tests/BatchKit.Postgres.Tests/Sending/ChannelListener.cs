using System.Threading.Channels;
using BatchKit.Postgres.Schema;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.Postgres.Tests.Sending;

/// <summary>Hears the notifications of a schema, in their order.</summary>
internal sealed class ChannelListener : IAsyncDisposable
{
    private const string Marker = "marker";

    private readonly string _channel;
    private readonly TestSchema _schema;
    private readonly NpgsqlConnection _connection;
    private readonly Channel<string> _heard = Channel.CreateUnbounded<string>();
    private readonly CancellationTokenSource _stopping = new();
    private readonly Task _listening;

    private ChannelListener(TestSchema schema, NpgsqlConnection connection)
    {
        _schema = schema;
        _connection = connection;
        _channel = NotificationChannel.Of(new Tables(schema.Name));
        connection.Notification += (_, notification) => _heard.Writer.TryWrite(notification.Payload);
        _listening = ListenAsync();
    }

    public static async Task<ChannelListener> StartAsync(TestSchema schema)
    {
        var connection = await schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using (var command = new NpgsqlCommand($"listen \"{NotificationChannel.Of(new Tables(schema.Name))}\"", connection))
            await command.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);
        return new ChannelListener(schema, connection);
    }

    public Task<string> NextAsync() => _heard.Reader.ReadAsync(TestContext.Current.CancellationToken).WithinDeadline();

    /// <summary>What was sent before this call and not taken yet: notifications come in the order of their commits.</summary>
    public async Task<IReadOnlyList<string>> DrainAsync()
    {
        await _schema.ExecuteAsync($"select pg_notify('{_channel}', '{Marker}')");
        var heard = new List<string>();
        while (await NextAsync() is var payload && payload != Marker)
            heard.Add(payload);
        return heard;
    }

    public async ValueTask DisposeAsync()
    {
        await _stopping.CancelAsync();
        await _listening;
        await _connection.DisposeAsync();
        _stopping.Dispose();
    }

    private async Task ListenAsync()
    {
        try
        {
            // Npgsql may lose a cancellation (QueueListener.LongestWait), and then only the next wait is cancelled.
            while (true)
                await _connection.WaitAsync(TimeSpan.FromSeconds(1), _stopping.Token);
        }
        catch (OperationCanceledException)
        {
            // The test has ended.
        }
    }
}

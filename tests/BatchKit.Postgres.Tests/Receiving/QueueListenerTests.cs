using System.Threading.Channels;
using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Schema;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.Postgres.Tests.Receiving;

/// <summary>A listener wakes each queue for its own notifications, and has all of them looked at whenever it may have missed something.</summary>
public sealed class QueueListenerTests(PostgresFixture postgres) : IAsyncLifetime
{
    private static readonly QueueEntry Queue = new(7, "tasks", 0);

    private readonly Channel<string> _calls = Channel.CreateUnbounded<string>();
    private readonly CancellationTokenSource _stopping = new();
    private readonly LogCollector _log = new();
    private TestSchema? _schema;
    private NpgsqlDataSource? _dataSource;
    private Task _listening = Task.CompletedTask;

    private TestSchema Schema => _schema!;

    public async ValueTask InitializeAsync()
    {
        _schema = await postgres.NewSchemaAsync();
        // So that the server can say which connection is the listener's.
        _dataSource = NpgsqlDataSource.Create(new NpgsqlConnectionStringBuilder(Schema.DataSource.ConnectionString) { ApplicationName = Schema.Name });
    }

    public async ValueTask DisposeAsync()
    {
        await _stopping.CancelAsync();
        await _listening.WithinDeadline();
        await _dataSource!.DisposeAsync();
        await Schema.DisposeAsync();
        _stopping.Dispose();
    }

    [Fact]
    public async Task Each_notification_wakes_its_own_queue_on_one_connection()
    {
        var listener = Start();
        await LookedAsync();
        var other = new QueueSubscription(77, () => _calls.Writer.TryWrite("wake 77"), Nothing, _log.CreateLogger("other"));
        listener.Add(other);

        foreach (var payload in (string[])["7", "77", "", "x", "-7", "99999999999", "7"])
            await NotifyAsync(payload);

        Assert.Equal(["wake 7", "wake 77", "wake 7"], [await NextAsync(), await NextAsync(), await NextAsync()]);
        Assert.Single(await ListenersAsync());
        listener.Remove(other);
        await NotifyAsync("77");
        await NotifyAsync("7");
        await WokenAsync();
    }

    [Fact]
    public async Task A_connection_that_the_server_ends_is_replaced_and_its_queues_are_looked_at()
    {
        Start();
        await LookedAsync();

        await EndListenersAsync();

        await LookedAsync();
        await LookedAsync();
        await NotifyAsync("7");
        await WokenAsync();
        Assert.Equal((1, 1), (_log.Count(2610), _log.Count(2611)));
    }

    [Fact]
    public async Task A_server_that_ends_each_connection_soon_is_logged_once()
    {
        Start();

        await LookedAsync();
        for (var ends = 0; ends < 5; ends++)
        {
            await EndListenersAsync();
            // The first end is an outage of its own.
            if (ends == 0)
                await LookedAsync();
            await LookedAsync();
        }

        Assert.Equal((1, 1), (_log.Count(2610), _log.Count(2611)));
    }

    [Fact]
    public async Task A_connection_that_was_dropped_in_silence_is_found_out_and_replaced()
    {
        var server = await postgres.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var overProxy = new NpgsqlConnectionStringBuilder(Schema.DataSource.ConnectionString) { Host = "127.0.0.1", Port = proxy.Port, Timeout = 1, CancellationTimeout = 100 };
        Start(options =>
        {
            options.ListenConnectionString = overProxy.ConnectionString;
            options.ListenKeepAlive = TimeSpan.FromMilliseconds(200);
        });
        await LookedAsync();

        proxy.Stall();
        await _log.WaitForAsync(2610);
        proxy.Resume();

        await LookedAsync();
        await LookedAsync();
        await NotifyAsync("7");
        await WokenAsync();
        Assert.InRange(proxy.AcceptedConnections, 2, int.MaxValue);
    }

    [Fact]
    public async Task A_silent_connection_that_lives_is_kept()
    {
        // The server may take as long to answer: on a busy machine more than a second.
        Start(options => options.ListenKeepAlive = TimeSpan.FromSeconds(3));
        await LookedAsync();
        var listener = Assert.Single(await ListenersAsync());

        // It was asked whether it lives, and says so: its last statement is the question.
        await Until.TrueAsync(async () => await Schema.ScalarAsync<string>($"select query from pg_stat_activity where pid = {listener}") == "select pg_catalog.current_setting('transaction_read_only')");
        await NotifyAsync("7");
        await WokenAsync();

        Assert.Equal([listener], await ListenersAsync());
        Assert.Empty(_log.Entries);
    }

    [Fact]
    public async Task A_read_only_server_is_tried_again_without_saying_that_listening_works()
    {
        var server = await postgres.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var readOnly = new NpgsqlConnectionStringBuilder(Schema.DataSource.ConnectionString) { Host = "127.0.0.1", Port = proxy.Port, Options = "-c default_transaction_read_only=on" };
        var listener = Start(options =>
        {
            options.ListenConnectionString = readOnly.ConnectionString;
            options.ListenKeepAlive = TimeSpan.FromMilliseconds(100);
        });

        await Until.TrueAsync(() => Task.FromResult(proxy.AcceptedConnections > 3));

        Assert.Equal((1, 0), (_log.Count(2610), _log.Count(2611)));
        Assert.Contains("read-only", listener.Fault, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Its_own_connection_string_goes_before_the_data_source()
    {
        await using var nowhere = NpgsqlDataSource.Create("Host=127.0.0.1;Port=1;Username=nobody");
        Start(options => options.ListenConnectionString = Schema.DataSource.ConnectionString, nowhere);

        await LookedAsync();
        await NotifyAsync("7");
        await WokenAsync();
    }

    [Fact]
    public async Task A_server_that_cannot_be_reached_is_tried_again_and_logged_once_without_a_password()
    {
        Start(options => options.ListenConnectionString = "Host=127.0.0.1;Port=1;Username=nobody;Password=secret-4711");

        await _log.WaitForAsync(2610);

        Assert.DoesNotContain("secret-4711", Assert.Single(_log.Entries).Text, StringComparison.Ordinal);
    }

    private QueueListener Start(Action<PostgresQueueReceiverOptions>? configure = null, NpgsqlDataSource? dataSource = null)
    {
        var options = new PostgresQueueReceiverOptions
        {
            Schema = Schema.Name,
            Queue = Queue.Name,
            ReconnectDelay = TimeSpan.FromMilliseconds(10),
            MaxReconnectDelay = TimeSpan.FromMilliseconds(50),
        };
        configure?.Invoke(options);
        var listener = new QueueListener(dataSource ?? _dataSource!, options, TimeProvider.System);
        listener.Add(new QueueSubscription(Queue.Id, () => _calls.Writer.TryWrite("wake 7"), () => _calls.Writer.TryWrite("look"), _log.CreateLogger("listener")));
        _listening = Task.Run(() => listener.RunAsync(_stopping.Token));
        return listener;
    }

    private static void Nothing()
    {
    }

    private Task<string> NextAsync() => _calls.Reader.ReadAsync(TestContext.Current.CancellationToken).WithinDeadline();

    private async Task WokenAsync() => Assert.Equal("wake 7", await NextAsync());

    private async Task LookedAsync() => Assert.Equal("look", await NextAsync());

    private Task NotifyAsync(string payload) => Schema.ExecuteAsync($"select pg_notify('{NotificationChannel.Of(new Tables(Schema.Name))}', '{payload}')");

    private Task<List<int>> ListenersAsync() => Schema.ColumnAsync<int>($"select pid from pg_stat_activity where application_name = '{Schema.Name}'");

    private Task EndListenersAsync() => Schema.ExecuteAsync($"select pg_terminate_backend(pid) from pg_stat_activity where application_name = '{Schema.Name}'");
}

using System.Collections.Concurrent;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres.Tests;

/// <summary>Callbacks of a data source that throw when a connection is opened, and logins that are refused: sender, receiver and outbox go on with the next attempt, and lose nothing.</summary>
public sealed class ConnectionCallbackTests(PasswordServer server) : IClassFixture<PasswordServer>
{
    private readonly KeepingHandler _handled = new();
    private readonly CollectingTransport _forwarded = new();
    private readonly LogCollector _log = new();
    private readonly ProducerId _producer = Some.Producer();
    private int _calls;

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    [InlineData(0)]
    // Npgsql asks the provider again within the same attempt to connect, so that no failure is seen.
    public Task A_password_provider_that_throws_at_one_call_ends_nothing(int failing) => GoOnAsync(failing, static (builder, call) =>
    {
        builder.ConnectionStringBuilder.Username = PasswordServer.User;
        builder.UsePasswordProvider(_ => Password(), (_, _) => ValueTask.FromResult(Password()));

        string Password()
        {
            call();
            return PasswordServer.Password;
        }
    });

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(0)]
    public Task A_connection_initializer_that_throws_at_one_call_ends_nothing(int failing) => GoOnAsync(failing, AddInitializer);

    // Later calls may fail within an outage, of which only the first reason is logged: here the connections end behind each line.
    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    public async Task A_connection_initializer_that_throws_at_the_start_is_named(int failing)
    {
        await GoOnAsync(failing, AddInitializer);

        Assert.Contains("The callback fails.", _log.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_login_that_is_refused_is_told_as_a_lost_connection_and_as_restored_when_it_is_right_again()
    {
        await using var schema = await server.NewSchemaAsync();
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name, TestContext.Current.CancellationToken);
        var login = new NpgsqlConnectionStringBuilder(schema.DataSource.ConnectionString) { Username = PasswordServer.User, Password = PasswordServer.Password };
        await using var dataSource = NpgsqlDataSource.Create(login.ConnectionString);
        var changes = new ConcurrentQueue<(string Purpose, BrokerConnectionState State)>();
        var options = ReceiverOptions(schema);
        options.ConnectionChanged = Add;
        await using var receiver = new PostgresQueueReceiver(dataSource, options, _handled);
        await using var transport = new PostgresQueueTransport(dataSource, new PostgresOptions { Schema = schema.Name, ConnectionChanged = Add });
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await SendAsync(transport, line: 0);

        // Committed first: a connection that is made again before the commit still has the right password, and nothing is lost.
        await schema.ExecuteAsync($"alter role {PasswordServer.User} password 'wrong'");
        await schema.ExecuteAsync($"select pg_terminate_backend(pid) from pg_stat_activity where usename = '{PasswordServer.User}'");
        var isSent = await TryAsync(() => transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("tasks"), _producer, 2, "line 1") }, CancellationToken.None).AsTask());
        await Until.TrueAsync(() => StatesOf("receiver").Length == 2);
        await schema.ExecuteAsync($"alter role {PasswordServer.User} password '{PasswordServer.Password}'");
        await SendAsync(transport, line: 1);

        Assert.False(isSent);
        await Until.TrueAsync(() => StatesOf("receiver").Length == 3);
        foreach (var purpose in new[] { "transport", "receiver" })
            Assert.Equal([BrokerConnectionState.Connected, BrokerConnectionState.Lost, BrokerConnectionState.Restored], StatesOf(purpose));

        void Add(ConnectionChange change) => changes.Enqueue((change.Purpose, change.State));
        BrokerConnectionState[] StatesOf(string purpose) => [.. changes.Where(change => change.Purpose == purpose).Select(static change => change.State)];
    }

    private static void AddInitializer(NpgsqlDataSourceBuilder builder, Action call) => builder.UsePhysicalConnectionInitializer(
        _ => call(),
        _ =>
        {
            call();
            return Task.CompletedTask;
        });

    /// <summary>Sends lines, and ends all connections behind each, until the callback has thrown and was called again: all lines arrive.</summary>
    private async Task GoOnAsync(int failing, Action<NpgsqlDataSourceBuilder, Action> configure)
    {
        failing = failing > 0 ? failing : Random.Shared.Next(4, 15);
        await using var schema = await server.NewSchemaAsync();
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name, TestContext.Current.CancellationToken);
        var builder = new NpgsqlDataSourceBuilder($"{schema.DataSource.ConnectionString};Application Name={schema.Name}");
        configure(builder, () =>
        {
            if (Interlocked.Increment(ref _calls) == failing)
                throw new NotSupportedException("The callback fails.");
        });
        await using var dataSource = builder.Build();
        await using var receiver = new PostgresQueueReceiver(dataSource, ReceiverOptions(schema), _handled, logger: new Logger<PostgresQueueReceiver>(_log));
        await using var transport = new PostgresQueueTransport(dataSource, new PostgresOptions { Schema = schema.Name }, logger: new Logger<PostgresQueueTransport>(_log));
        await using var outbox = new PostgresOutbox(
            dataSource, _forwarded, new PostgresOutboxOptions { Schema = schema.Name, PollInterval = TimeSpan.FromMilliseconds(50) }, logger: new Logger<PostgresOutbox>(_log));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await outbox.StartAsync(CancellationToken.None).WithinDeadline();

        var lines = 0;
        for (var isOver = false; !isOver; lines++)
        {
            isOver = Volatile.Read(ref _calls) > failing;
            await SendAsync(transport, lines);
            await EnqueueAsync(outbox, lines);
            await Until.TrueAsync(() => Distinct(_handled.Texts).Length == lines + 1 && Distinct(_forwarded.Texts).Length == lines + 1);
            await schema.ExecuteAsync($"select pg_terminate_backend(pid) from pg_stat_activity where application_name = '{schema.Name}'");
        }

        // A connection that ends while a message is being settled has it handled again.
        Assert.Equal(Some.Lines(lines), Distinct(_handled.Texts));
        Assert.Equal(Some.Lines(lines), Distinct(_forwarded.Texts));
        await Until.TrueAsync(() => receiver.Fault is null && outbox.Fault is null);
    }

    private static string[] Distinct(IEnumerable<string> texts) => [.. texts.Distinct(StringComparer.Ordinal)];

    private async Task SendAsync(PostgresQueueTransport transport, int line)
    {
        var batch = Some.Batch(OutputHandle.Named("tasks"), _producer, line + 1, $"line {line}");
        await Until.TrueAsync(() => TryAsync(() => transport.SendAsync(new[] { batch }, CancellationToken.None).AsTask()));
    }

    // A call whose connection is lost at its commit may have stored the message; here no connection is ended during a call.
    private Task EnqueueAsync(PostgresOutbox outbox, int line) =>
        Until.TrueAsync(() => TryAsync(() => outbox.EnqueueAsync(OutputHandle.Named("room"), [Some.Message($"line {line}")], cancellationToken: TestContext.Current.CancellationToken)));

    private async Task<bool> TryAsync(Func<Task> call)
    {
        try
        {
            await call();
            return true;
        }
        catch (Exception exception) when (exception is not OperationCanceledException)
        {
            _log.LogInformation(exception, "A call failed.");
            return false;
        }
    }

    private static PostgresQueueReceiverOptions ReceiverOptions(TestSchema schema) => new()
    {
        Schema = schema.Name,
        Queue = "tasks",
        Concurrency = 1,
        PollInterval = TimeSpan.FromMilliseconds(50),
        ReconnectDelay = TimeSpan.FromMilliseconds(10),
        MaxReconnectDelay = TimeSpan.FromMilliseconds(100),
    };
}

/// <summary>A server that asks one of its users for a password.</summary>
public sealed class PasswordServer : IAsyncDisposable
{
    public const string User = "with_password";
    public const string Password = "right";

    private PostgresServer? _server;

    /// <summary>A schema that no other test uses, not created yet; tests of one class run one after the other.</summary>
    public async Task<TestSchema> NewSchemaAsync()
    {
        RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);
        return TestSchema.On(_server ??= await StartAsync());
    }

    public async ValueTask DisposeAsync()
    {
        if (_server is not null)
            await _server.DisposeAsync();
    }

    private static async Task<PostgresServer> StartAsync()
    {
        var server = await PostgresServer.StartOwnAsync();
        var rules = Path.Combine(server.DataPath, "pg_hba.conf");
        await File.WriteAllTextAsync(rules, $"host all {User} 127.0.0.1/32 scram-sha-256\n{await File.ReadAllTextAsync(rules)}");
        await using var dataSource = NpgsqlDataSource.Create(server.ConnectionString);
        await using var command = dataSource.CreateCommand($"create role {User} login superuser password '{Password}'; select pg_reload_conf()");
        await command.ExecuteNonQueryAsync();
        await Until.TrueAsync(async () => await AsksAsync(server));
        return server;
    }

    private static async Task<bool> AsksAsync(PostgresServer server)
    {
        await using var wrong = NpgsqlDataSource.Create(new NpgsqlConnectionStringBuilder(server.ConnectionString) { Username = User, Password = "wrong", Pooling = false });
        try
        {
            await using var connection = await wrong.OpenConnectionAsync();
            return false;
        }
        catch (PostgresException)
        {
            return true;
        }
    }
}

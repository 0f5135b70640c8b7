using System.Globalization;
using BatchKit.TestServers.Network;
using Npgsql;

namespace BatchKit.TestServers.Postgres;

/// <summary>A primary and a standby that follows it by streaming replication, each a child process with a data folder of its own. Disposing kills both.</summary>
public sealed class PostgresPair : IAsyncDisposable
{
    private static readonly TimeSpan AttachLimit = TimeSpan.FromSeconds(60);
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(20);

    private readonly PostgresServerOptions _options;
    private readonly bool _isSynchronous;
    private int _deadPort;

    private PostgresPair(PostgresServerOptions options, bool isSynchronous, int[] ports, PostgresServer primary)
    {
        (_options, _isSynchronous, Primary) = (options, isSynchronous, primary);
        ConnectionString = string.Create(CultureInfo.InvariantCulture, $"Host=127.0.0.1:{ports[0]},127.0.0.1:{ports[1]};Username=postgres;Database=postgres");
    }

    /// <summary>How to connect to either of them, as Npgsql takes it for several hosts; the first is the first primary.</summary>
    public string ConnectionString { get; }

    /// <summary>The server that takes writes.</summary>
    public PostgresServer Primary { get; private set; }

    /// <summary>The server that follows; null between <see cref="FailOverAsync"/> and <see cref="MendAsync"/>.</summary>
    public PostgresServer? Standby { get; private set; }

    /// <summary>Starts both; completes when the standby streams.</summary>
    /// <param name="isSynchronous">True: commits wait until the standby has them on disk (<c>synchronous_standby_names = '*'</c>).</param>
    /// <param name="options">What both are like.</param>
    /// <exception cref="ServerStartException">PostgreSQL is not installed, or did not start.</exception>
    public static async Task<PostgresPair> StartAsync(bool isSynchronous, PostgresServerOptions? options = null)
    {
        options ??= new PostgresServerOptions();
        var ports = FreePort.Take(2);
        var primary = await PostgresServer.StartOwnAsync(OptionsOf(options, ports[0]));
        return await ServerStart.OrDisposeAsync(new PostgresPair(options, isSynchronous, ports, primary), pair => pair.AttachAsync(ports[1]));
    }

    /// <summary>Kills the primary (SIGKILL) and promotes the standby; completes when that takes writes.</summary>
    public async Task FailOverAsync()
    {
        await KillPrimaryAsync();
        await PromoteAsync();
    }

    /// <summary>Kills the primary (SIGKILL); completes when its children have ended too.</summary>
    public Task KillPrimaryAsync() => Primary.KillAsync();

    /// <summary>Promotes the standby; completes when it takes writes.</summary>
    public async Task PromoteAsync()
    {
        var standby = Standby ?? throw new InvalidOperationException("There is no standby.");
        // Not waiting in the server: a statement that waits there keeps a snapshot, which can conflict with what the standby must still replay before it is promoted.
        await AskAsync(standby, "select pg_promote(wait => false)");
        await WaitAsync(standby, "select not pg_is_in_recovery()");
        var dead = Primary;
        (Primary, Standby) = (standby, null);
        _deadPort = dead.Port;
        await dead.DisposeAsync();
    }

    /// <summary>Starts a new standby, with a copy of the primary's data, on the port of the one that was killed.</summary>
    public Task MendAsync() => Standby is null ? AttachAsync(_deadPort) : Task.CompletedTask;

    /// <summary>Waits until the standby has on disk what the primary has committed by now.</summary>
    public async Task WaitForStandbyAsync()
    {
        var position = await AskAsync(Primary, "select pg_current_wal_lsn()::text");
        await WaitAsync(Primary, $"select exists (select from pg_stat_replication where flush_lsn >= '{position}')");
    }

    /// <inheritdoc/>
    public async ValueTask DisposeAsync()
    {
        if (Standby is { } standby)
            await standby.DisposeAsync();
        await Primary.DisposeAsync();
    }

    private async Task AttachAsync(int port)
    {
        // A copy of the primary's settings comes with its data: a promoted standby would wait for one of its own.
        Standby = await PostgresServer.StartStandbyAsync(Primary, OptionsOf(_options, port, "synchronous_standby_names = ''"));
        if (_isSynchronous)
            await Primary.ConfigureAsync("synchronous_standby_names = '*'");
        await WaitAsync(Primary, $"select exists (select from pg_stat_replication where state = 'streaming' and sync_state = '{(_isSynchronous ? "sync" : "async")}')");
    }

    private static async Task WaitAsync(PostgresServer server, string condition)
    {
        using var limit = new CancellationTokenSource(AttachLimit);
        while (await AskAsync(server, condition) is not true)
            await Task.Delay(Pause, limit.Token);
    }

    private static async Task<object?> AskAsync(PostgresServer server, string sql)
    {
        await using var connection = new NpgsqlConnection($"{server.ConnectionString};Pooling=false");
        await connection.OpenAsync();
        await using var command = new NpgsqlCommand(sql, connection) { CommandTimeout = (int)AttachLimit.TotalSeconds };
        return await command.ExecuteScalarAsync();
    }

    private static PostgresServerOptions OptionsOf(PostgresServerOptions options, int port, params string[] lines) => new()
    {
        Port = port,
        MaxConnections = options.MaxConnections,
        // What the primary has written while a standby starts must still be there for it.
        Lines = ["wal_keep_size = '256MB'", .. options.Lines, .. lines],
        Environment = options.Environment,
    };
}

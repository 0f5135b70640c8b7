using System.Globalization;
using System.Net;
using System.Net.Sockets;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Processes;
using Npgsql;

namespace BatchKit.TestServers.Postgres;

/// <summary>PgBouncer in transaction mode in front of a PostgreSQL server, as a child process. Disposing kills it.</summary>
public sealed class PgBouncerServer : IAsyncDisposable
{
    private readonly string _folder;
    private readonly ServerProcess _process;

    private PgBouncerServer(string folder, ServerProcess process, string connectionString)
    {
        _folder = folder;
        _process = process;
        ConnectionString = connectionString;
    }

    /// <summary>How to connect through it, with the settings that BatchKit documents for poolers.</summary>
    public string ConnectionString { get; }

    /// <summary>Why it can't be started here; null when it can.</summary>
    public static string? WhyMissing =>
        Find() is null ? "PgBouncer is not installed (apt-get install pgbouncer)." : PostgresServer.WhyNotInstalled;

    /// <summary>Starts it in front of a server, with few connections to it, so that transactions of one client change between them.</summary>
    /// <exception cref="ServerStartException">It is not installed, or did not start.</exception>
    public static async Task<PgBouncerServer> StartAsync(PostgresServer server)
    {
        ArgumentNullException.ThrowIfNull(server);
        var program = PostgresProgram.Find();
        var path = Find() ?? throw new ServerStartException(WhyMissing!);
        var folder = Directory.CreateTempSubdirectory("batchkit-pgbouncer-").FullName;
        var port = FreePort.Take(1)[0];
        var settings = Path.Combine(folder, "pgbouncer.ini");
        await File.WriteAllLinesAsync(settings, Lines(server, port));
        await PostgresProgram.OwnAsync(folder);
        await PostgresProgram.OwnAsync(settings);
        var process = program.Start(path, [settings], new Dictionary<string, string>());
        var address = new NpgsqlConnectionStringBuilder(server.ConnectionString) { Host = "127.0.0.1", Port = port, NoResetOnClose = true };
        return await ServerStart.OrDisposeAsync(
            new PgBouncerServer(folder, process, address.ConnectionString), _ => process.WaitUntilAsync(() => ListensAsync(port), "PgBouncer"));
    }

    /// <inheritdoc/>
    public ValueTask DisposeAsync()
    {
        _process.Dispose();
        Directory.Delete(_folder, recursive: true);
        return ValueTask.CompletedTask;
    }

    private static string? Find() => InstalledProgram.Find("pgbouncer");

    private static IEnumerable<string> Lines(PostgresServer server, int port)
    {
        var address = new NpgsqlConnectionStringBuilder(server.ConnectionString);
        var password = address.Password is { Length: > 0 } secret ? $" password={secret}" : "";
        return
        [
            "[databases]",
            string.Create(CultureInfo.InvariantCulture, $"* = host={server.Host} port={server.Port} user={address.Username}{password}"),
            "[pgbouncer]",
            "listen_addr = 127.0.0.1",
            string.Create(CultureInfo.InvariantCulture, $"listen_port = {port}"),
            "unix_socket_dir =",
            "auth_type = any",
            "pool_mode = transaction",
            "default_pool_size = 4",
            "max_client_conn = 500",
            "ignore_startup_parameters = extra_float_digits",
        ];
    }

    private static async Task<bool> ListensAsync(int port)
    {
        using var client = new TcpClient();
        try
        {
            await client.ConnectAsync(IPAddress.Loopback, port);
            return true;
        }
        catch (SocketException)
        {
            return false;
        }
    }
}

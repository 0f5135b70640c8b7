using System.Data.Common;
using System.Globalization;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.Postgres;

/// <summary>A PostgreSQL server for tests and benchmarks: one from the environment, or the installed one as a child process with a data folder of its own.</summary>
/// <remarks>
/// Dispose it: that kills the process and deletes its data. It may be killed, frozen and started again on the same port and data. It commits to disk, as by default. The cluster that Debian's package
/// starts on port 5432 is never used.
/// </remarks>
public sealed class PostgresServer : IAsyncDisposable
{
    /// <summary>The environment variable with the connection string of a running server, for a user who may create schemas.</summary>
    public const string AddressVariable = "BATCHKIT_TEST_POSTGRES";

    private const int DefaultPort = 5432;
    private static readonly TimeSpan StopLimit = TimeSpan.FromSeconds(60);

    // They look for their parent whenever they wait; one that computes is killed after this.
    private static readonly TimeSpan OrphanLimit = TimeSpan.FromSeconds(10);

    private readonly PostgresServerOptions _options;
    private readonly PostgresFolder? _folder;
    private ServerProcess? _process;

    private PostgresServer(string connectionString, PostgresServerOptions options, PostgresFolder? folder)
    {
        ConnectionString = connectionString;
        _options = options;
        _folder = folder;
    }

    /// <summary>How to connect to its database, as Npgsql takes it.</summary>
    public string ConnectionString { get; }

    /// <summary>The host to connect to.</summary>
    public string Host => Setting("Host") ?? "127.0.0.1";

    /// <summary>The port to connect to.</summary>
    public int Port => Setting("Port") is { } port ? int.Parse(port, CultureInfo.InvariantCulture) : DefaultPort;

    /// <summary>True when it is a child process, which may be killed and frozen; false for one from the environment.</summary>
    public bool IsOwned => _folder is not null;

    /// <summary>Its log since it was started last; the last quarter of a megabyte of it.</summary>
    public string Output => _process?.Output ?? "";

    /// <summary>Its main process, for who measures it.</summary>
    public int ProcessId => Running().Id;

    /// <summary>Its data folder.</summary>
    public string DataPath => Owned().DataPath;

    /// <summary>Why no server can be had here, or null when one can.</summary>
    public static string? WhyMissing => Configured is not null || WhyNotInstalled is not { } reason ? null : $"{reason} {AddressVariable} names no server either.";

    /// <summary>Why none can be started here, to be killed and frozen; null when one can.</summary>
    public static string? WhyNotInstalled => PostgresProgram.WhyMissing;

    private static string? Configured => Environment.GetEnvironmentVariable(AddressVariable) is { Length: > 0 } address ? address : null;

    /// <summary>Takes the server that the environment names, or starts the installed one.</summary>
    /// <exception cref="ServerStartException">There is none, or it did not start.</exception>
    public static async Task<PostgresServer> ConnectOrStartAsync(PostgresServerOptions? options = null) =>
        Configured is { } address ? new PostgresServer(address, new PostgresServerOptions(), folder: null) : await StartOwnAsync(options);

    /// <summary>Starts the installed server as a child process, whatever the environment says.</summary>
    /// <exception cref="ServerStartException">It is not installed, or did not start.</exception>
    public static async Task<PostgresServer> StartOwnAsync(PostgresServerOptions? options = null)
    {
        options ??= new PostgresServerOptions();
        return await StartAsync(options, await PostgresFolder.CreateAsync(options));
    }

    /// <summary>Starts a standby that follows a running server by streaming replication.</summary>
    /// <exception cref="ServerStartException">Its data could not be copied, or it did not start.</exception>
    internal static async Task<PostgresServer> StartStandbyAsync(PostgresServer primary, PostgresServerOptions options) =>
        await StartAsync(options, await PostgresFolder.CopyAsync(options, primary.Port));

    /// <summary>False once it was stopped or killed.</summary>
    public bool IsRunning => _process is not null;

    /// <summary>Starts it again, on the same port and data, after <see cref="StopAsync"/> or <see cref="KillAsync"/>; completes when it takes connections.</summary>
    public async Task StartAsync()
    {
        var folder = Owned();
        var process = _process = folder.Start();
        await process.WaitUntilAsync(() => Task.FromResult(folder.IsReady(process.Id)), "PostgreSQL");
    }

    /// <summary>Appends lines to its configuration, and has it read them.</summary>
    internal async Task ConfigureAsync(params string[] lines)
    {
        await Owned().ConfigureAsync(lines);
        Signal.Send(Running().Id, Signal.HangUp);
    }

    /// <summary>Stops it in good order (SIGINT, its fast shutdown): connections are ended, transactions rolled back.</summary>
    public Task StopAsync() => EndAsync(Signal.Interrupt);

    /// <summary>Kills its main process at once (SIGKILL); completes when its children have ended too, because it could not start again beside them.</summary>
    public Task KillAsync() => EndAsync(Signal.Kill);

    /// <summary>Freezes it (SIGSTOP), with all its connections: they stay open, nothing answers.</summary>
    public void Freeze()
    {
        // The parent first: it could start another child meanwhile.
        FrozenProcess.Freeze(Running().Id);
        Array.ForEach(PostgresChildren.Of(Running().Id), child => FrozenProcess.Freeze(child));
    }

    /// <summary>Lets it go on after <see cref="Freeze"/>.</summary>
    public void Thaw()
    {
        Array.ForEach(PostgresChildren.Of(Running().Id), child => FrozenProcess.Thaw(child));
        FrozenProcess.Thaw(Running().Id);
    }

    /// <inheritdoc/>
    public async ValueTask DisposeAsync()
    {
        if (_folder is null)
            return;
        await KillAsync();
        _folder.Delete();
    }

    private static Task<PostgresServer> StartAsync(PostgresServerOptions options, PostgresFolder folder)
    {
        var address = string.Create(CultureInfo.InvariantCulture, $"Host=127.0.0.1;Port={folder.Port};Username=postgres;Database=postgres");
        return ServerStart.OrDisposeAsync(new PostgresServer(address, options, folder), static server => server.StartAsync());
    }

    private async Task EndAsync(int signal)
    {
        Owned();
        if (_process is not { } process)
            return;
        // So that it starts no child that is not seen here.
        if (signal == Signal.Kill)
            Signal.Send(process.Id, Signal.Stop);
        var children = PostgresChildren.Of(process.Id);
        Signal.Send(process.Id, signal);
        // Frozen ones would neither stop nor see that their parent has gone.
        foreach (var id in (int[])[process.Id, .. children])
            Signal.Send(id, Signal.Continue);
        if (!await process.WaitForExitAsync(StopLimit))
            throw new TimeoutException($"PostgreSQL did not stop within {StopLimit}.{Environment.NewLine}{process.Output}");
        await PostgresChildren.WaitForExitAsync(children, OrphanLimit);
        process.Dispose();
        _process = null;
    }

    private string? Setting(string name) =>
        new DbConnectionStringBuilder { ConnectionString = ConnectionString }.TryGetValue(name, out var value) ? Convert.ToString(value, CultureInfo.InvariantCulture) : null;

    private ServerProcess Running() => Owned() is not null && _process is { } process ? process : throw new InvalidOperationException("PostgreSQL is not running.");

    private PostgresFolder Owned() =>
        _folder ?? throw new InvalidOperationException($"The server that {AddressVariable} names is not this process's to control.");
}

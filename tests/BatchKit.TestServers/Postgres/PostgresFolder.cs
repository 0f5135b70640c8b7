using System.Globalization;
using System.Security.Cryptography.X509Certificates;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.Postgres;

/// <summary>One server's folder: its data, configuration and port, and how it is started there.</summary>
internal sealed class PostgresFolder
{
    // The eighth line of postmaster.pid (PostgreSQL's src/include/utils/pidfile.h).
    private const int StatusLine = 7;

    private readonly PostgresProgram _program;
    private readonly PostgresServerOptions _options;
    private readonly string _path;

    private PostgresFolder(PostgresProgram program, PostgresServerOptions options)
    {
        _program = program;
        _options = options;
        _path = Directory.CreateTempSubdirectory("batchkit-postgres-").FullName;
        Port = options.Port ?? FreePort.Take(1)[0];
    }

    public int Port { get; }

    public string DataPath => Path.Combine(_path, "data");

    /// <summary>Creates the folder of a new server.</summary>
    public static Task<PostgresFolder> CreateAsync(PostgresServerOptions options) =>
        // --no-sync is about initdb's own files only; the server syncs what it commits.
        CreateAsync(options, folder => folder._program.RunAsync("initdb", "-D", folder.DataPath, "-U", "postgres", "-A", "trust", "--locale=C", "-E", "UTF8", "--no-sync"));

    /// <summary>Creates the folder of a standby that follows a running server, with a copy of its data.</summary>
    public static Task<PostgresFolder> CopyAsync(PostgresServerOptions options, int primaryPort) => CreateAsync(options, folder => folder._program.RunAsync(
        "pg_basebackup", "-D", folder.DataPath, "-h", "127.0.0.1", "-p", primaryPort.ToString(CultureInfo.InvariantCulture), "-U", "postgres", "--write-recovery-conf", "--checkpoint=fast", "--no-sync"));

    /// <summary>Appends lines to its configuration, which a running server reads when it is told to.</summary>
    public Task ConfigureAsync(IEnumerable<string> lines) => File.AppendAllLinesAsync(Path.Combine(DataPath, "postgresql.conf"), lines);

    private static async Task<PostgresFolder> CreateAsync(PostgresServerOptions options, Func<PostgresFolder, Task> fill)
    {
        var folder = new PostgresFolder(PostgresProgram.Find(), options);
        try
        {
            await PostgresProgram.OwnAsync(folder._path);
            await fill(folder);
            if (options.Certificate is { } certificate)
                await folder.WriteAsync(certificate);
            await folder.ConfigureAsync(folder.Lines());
        }
        catch
        {
            folder.Delete();
            throw;
        }

        return folder;
    }

    // The server reads the key only when no one else can.
    private async Task WriteAsync(X509Certificate2 certificate)
    {
        using var key = certificate.GetRSAPrivateKey() ?? throw new ArgumentException("The certificate has no RSA private key.", nameof(certificate));
        foreach (var (name, text) in new[] { ("server.crt", certificate.ExportCertificatePem()), ("server.key", key.ExportPkcs8PrivateKeyPem()) })
        {
            var file = Path.Combine(DataPath, name);
            await File.WriteAllTextAsync(file, text);
            if (!OperatingSystem.IsWindows())
                File.SetUnixFileMode(file, UnixFileMode.UserRead | UnixFileMode.UserWrite);
            await PostgresProgram.OwnAsync(file);
        }
    }

    public ServerProcess Start() => _program.Start("postgres", ["-D", DataPath], _options.Environment);

    /// <summary>True once that process takes connections. A port that is open says less: it answers before a killed server's log is read.</summary>
    public bool IsReady(int processId)
    {
        try
        {
            var lines = File.ReadAllLines(Path.Combine(DataPath, "postmaster.pid"));
            // One that was killed has left its file.
            return lines.Length > StatusLine && lines[0].Trim() == processId.ToString(CultureInfo.InvariantCulture) && lines[StatusLine].Trim() is "ready" or "standby";
        }
        catch (IOException)
        {
            return false;
        }
    }

    public void Delete()
    {
        if (Directory.Exists(_path))
            Directory.Delete(_path, recursive: true);
    }

    private IEnumerable<string> Lines() =>
    [
        "listen_addresses = '127.0.0.1'",
        string.Create(CultureInfo.InvariantCulture, $"port = {Port}"),
        $"unix_socket_directories = '{_path}'",
        string.Create(CultureInfo.InvariantCulture, $"max_connections = {_options.MaxConnections}"),
        _options.Certificate is null ? "ssl = off" : "ssl = on",
        .. _options.Lines,
    ];
}

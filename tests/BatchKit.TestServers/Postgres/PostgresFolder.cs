using System.Globalization;
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

    private PostgresFolder(PostgresProgram program, PostgresServerOptions options, string path)
    {
        _program = program;
        _options = options;
        _path = path;
        Port = FreePort.Take(1)[0];
    }

    public int Port { get; }

    public string DataPath => Path.Combine(_path, "data");

    public static async Task<PostgresFolder> CreateAsync(PostgresServerOptions options)
    {
        var program = PostgresProgram.Find();
        var folder = new PostgresFolder(program, options, Directory.CreateTempSubdirectory("batchkit-postgres-").FullName);
        try
        {
            await PostgresProgram.OwnAsync(folder._path);
            // --no-sync is about initdb's own files only; the server syncs what it commits.
            await program.RunAsync("initdb", "-D", folder.DataPath, "-U", "postgres", "-A", "trust", "--locale=C", "-E", "UTF8", "--no-sync");
            await File.AppendAllLinesAsync(Path.Combine(folder.DataPath, "postgresql.conf"), folder.Lines());
        }
        catch
        {
            folder.Delete();
            throw;
        }

        return folder;
    }

    public ServerProcess Start() => _program.Start("postgres", ["-D", DataPath], _options.Environment);

    /// <summary>True once that process takes connections. A port that is open says less: it answers before a killed server's log is read.</summary>
    public bool IsReady(int processId)
    {
        try
        {
            var lines = File.ReadAllLines(Path.Combine(DataPath, "postmaster.pid"));
            // One that was killed has left its file.
            return lines.Length > StatusLine && lines[0].Trim() == processId.ToString(CultureInfo.InvariantCulture) && lines[StatusLine].Trim() == "ready";
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
        .. _options.Lines,
    ];
}

using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.Postgres;

/// <summary>The installed PostgreSQL, and the user who may run it: its programs refuse root.</summary>
internal sealed class PostgresProgram
{
    private const string User = "postgres";
    private const string DebianVersions = "/usr/lib/postgresql";
    private static readonly TimeSpan RunLimit = TimeSpan.FromSeconds(120);
    private static readonly Dictionary<string, string> NoEnvironment = [];

    private readonly string _folder;

    private PostgresProgram(string folder) => _folder = folder;

    /// <summary>Why it can't be run here; null when it can.</summary>
    public static string? WhyMissing =>
        FindFolder() is null ? "PostgreSQL is not installed (apt-get install postgresql)."
        : Environment.IsPrivilegedProcess && InstalledProgram.Find("setpriv") is null ? "PostgreSQL does not run as root, and setpriv is not installed (apt-get install util-linux)."
        : null;

    public static PostgresProgram Find() => WhyMissing is { } reason ? throw new ServerStartException(reason) : new PostgresProgram(FindFolder()!);

    /// <summary>Gives a folder or file to the user who runs the server.</summary>
    public static async Task OwnAsync(string path)
    {
        if (Environment.IsPrivilegedProcess)
            await FinishAsync("chown", ServerProcess.Start(InstalledProgram.Find("chown")!, [$"{User}:{User}", path], NoEnvironment));
    }

    /// <summary>Runs one of its programs to its end.</summary>
    /// <exception cref="ServerStartException">It failed; the message has what it wrote.</exception>
    public Task RunAsync(string name, params string[] arguments) => FinishAsync(name, Start(name, arguments, NoEnvironment));

    /// <summary>Starts one of its programs: the process is the program's own, because each that goes before becomes it.</summary>
    public ServerProcess Start(string name, string[] arguments, IReadOnlyDictionary<string, string> environment)
    {
        string[] asUser = Environment.IsPrivilegedProcess ? [InstalledProgram.Find("setpriv")!, $"--reuid={User}", $"--regid={User}", "--clear-groups"] : [];
        // Set behind the change of user, so that only the server gets them.
        string[] command = [.. asUser, InstalledProgram.Find("env")!, .. environment.Select(pair => $"{pair.Key}={pair.Value}"), Path.Combine(_folder, name), .. arguments];
        return ServerProcess.Start(command[0], command[1..], NoEnvironment);
    }

    private static async Task FinishAsync(string name, ServerProcess process)
    {
        using (process)
        {
            if (!await process.WaitForExitAsync(RunLimit))
                throw new ServerStartException($"{name} did not end within {RunLimit}.{Environment.NewLine}{process.Output}");
            if (process.ExitCode != 0)
                throw new ServerStartException($"{name} ended with {process.ExitCode}.{Environment.NewLine}{process.Output}");
        }
    }

    // Debian keeps each version's programs in a folder of its own, on nobody's PATH.
    private static string? FindFolder()
    {
        var versions = Directory.Exists(DebianVersions) ? Directory.GetDirectories(DebianVersions) : [];
        var newestFirst = versions.OrderByDescending(folder => Version.TryParse($"{Path.GetFileName(folder)}.0", out var version) ? version : new Version());
        return newestFirst.Select(folder => Path.Combine(folder, "bin")).Append(Path.GetDirectoryName(InstalledProgram.Find("initdb")))
            .FirstOrDefault(folder => folder is not null && File.Exists(Path.Combine(folder, "postgres")) && File.Exists(Path.Combine(folder, "initdb")));
    }
}

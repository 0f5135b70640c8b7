using System.Globalization;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.Redis;

/// <summary>A Redis server for tests: one from the environment, or the installed one as a child process with a data folder of its own.</summary>
/// <remarks>Dispose it: that kills the process and deletes its data. The service that Debian's package starts on port 6379 is never used.</remarks>
public sealed class RedisServer : IAsyncDisposable
{
    /// <summary>The environment variable with the address of a running server, as <c>redis://host:port</c>.</summary>
    public const string AddressVariable = "BATCHKIT_TEST_REDIS";

    // A user's PATH may lack where Debian and Homebrew keep it.
    private static readonly string[] ProgramFolders = ["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"];

    private static readonly TimeSpan StopLimit = TimeSpan.FromSeconds(60);

    private readonly string? _folder;
    private ServerProcess? _process;

    private RedisServer(Uri address, string? folder) => (Address, _folder) = (address, folder);

    /// <summary>Where it listens, as <c>redis://host:port</c>.</summary>
    public Uri Address { get; }

    /// <summary>Why tests can't have a server here; null when they can.</summary>
    public static string? WhyMissing => Configured is not null || WhyNotInstalled is not { } reason ? null : $"{reason} {AddressVariable} names no server either.";

    private static string? Configured => Environment.GetEnvironmentVariable(AddressVariable) is { Length: > 0 } address ? address : null;

    /// <summary>Why tests can't have a server of their own here; null when they can.</summary>
    public static string? WhyNotInstalled => FindProgram() is not null ? null : "Redis is not installed (apt-get install redis-server).";

    /// <summary>Takes the server that the environment names, or starts the installed one.</summary>
    /// <exception cref="ServerStartException">There is none, or it did not start.</exception>
    public static async Task<RedisServer> ConnectOrStartAsync() => Configured is { } configured ? new RedisServer(new Uri(configured), folder: null) : await StartOwnAsync();

    /// <summary>Starts the installed server, for a test that breaks it.</summary>
    /// <exception cref="ServerStartException">There is none, or it did not start.</exception>
    public static async Task<RedisServer> StartOwnAsync()
    {
        var program = FindProgram() ?? throw new ServerStartException("Redis is not installed.");
        var address = new Uri(string.Create(CultureInfo.InvariantCulture, $"redis://127.0.0.1:{FreePort.Take(1)[0]}"));
        var server = new RedisServer(address, Directory.CreateTempSubdirectory("batchkit-redis-").FullName);
        return await ServerStart.OrDisposeAsync(server, server => server.StartAsync(program));
    }

    /// <inheritdoc/>
    public async ValueTask DisposeAsync()
    {
        if (_folder is null)
            return;
        if (_process is { } process)
        {
            Signal.Send(process.Id, Signal.Kill);
            await process.WaitForExitAsync(StopLimit);
            process.Dispose();
        }

        Directory.Delete(_folder, recursive: true);
    }

    private static string? FindProgram() =>
        InstalledProgram.Find("redis-server") ?? ProgramFolders.Select(folder => Path.Combine(folder, "redis-server")).FirstOrDefault(File.Exists);

    private Task StartAsync(string program)
    {
        string[] arguments = ["--bind", Address.Host, "--port", $"{Address.Port}", "--dir", _folder!, "--save", string.Empty, "--appendonly", "no"];
        _process = ServerProcess.Start(program, arguments, new Dictionary<string, string>());
        return _process.WaitUntilAsync(() => Task.FromResult(_process.Output.Contains("Ready to accept connections", StringComparison.Ordinal)), "Redis");
    }
}

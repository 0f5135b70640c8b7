using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.Redis;

/// <summary>A Redis server for tests: one from the environment, or the installed one as a child process with a data folder of its own.</summary>
/// <remarks>Dispose it: that kills the process and deletes its data. The service that Debian's package starts on port 6379 is never used.</remarks>
public sealed class RedisServer : InstalledServer
{
    /// <summary>The environment variable with the address of a running server, as <c>redis://host:port</c>.</summary>
    public const string AddressVariable = "BATCHKIT_TEST_REDIS";

    private const string Program = "redis-server";

    private RedisServer(Uri address, string? folder) : base("Redis", address, folder) { }

    /// <summary>Why tests can't have a server here; null when they can.</summary>
    public static string? WhyMissing => FindReason(AddressVariable, WhyNotInstalled);

    /// <summary>Why tests can't have a server of their own here; null when they can.</summary>
    public static string? WhyNotInstalled => InstalledProgram.Find(Program) is not null ? null : "Redis is not installed (apt-get install redis-server).";

    /// <summary>Takes the server that the environment names, or starts the installed one.</summary>
    /// <exception cref="ServerStartException">There is none, or it did not start.</exception>
    public static async Task<RedisServer> ConnectOrStartAsync() => FindConfigured(AddressVariable) is { } address ? new RedisServer(address, folder: null) : await StartOwnAsync();

    /// <summary>Starts the installed server, for a test that breaks it.</summary>
    /// <exception cref="ServerStartException">There is none, or it did not start.</exception>
    public static async Task<RedisServer> StartOwnAsync() =>
        await ServerStart.OrDisposeAsync(new RedisServer(FreeAddress("redis"), Directory.CreateTempSubdirectory("batchkit-redis-").FullName), static server => server.StartAsync());

    private Task StartAsync() => StartAsync(
        Program, ["--bind", Address.Host, "--port", $"{Address.Port}", "--dir", Folder, "--save", string.Empty, "--appendonly", "no"], ready: "Ready to accept connections");
}

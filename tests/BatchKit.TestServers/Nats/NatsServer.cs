using System.Globalization;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.Nats;

/// <summary>A NATS server with JetStream for tests: one from the environment, or the installed one as a child process with a data folder of its own.</summary>
/// <remarks>Dispose it: that kills the process and deletes its data. The service that Debian's package starts on port 4222 is never used.</remarks>
public sealed class NatsServer : IAsyncDisposable
{
    /// <summary>The environment variable with the address of a running server with JetStream, as <c>nats://host:port</c>.</summary>
    public const string AddressVariable = "BATCHKIT_TEST_NATS";

    // A user's PATH may lack where Debian and Homebrew keep it.
    private static readonly string[] ProgramFolders = ["/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"];

    private static readonly TimeSpan StopLimit = TimeSpan.FromSeconds(60);

    private readonly string? _folder;
    private ServerProcess? _process;

    private NatsServer(Uri address, string? folder) => (Address, _folder) = (address, folder);

    /// <summary>Where it listens, as <c>nats://host:port</c>.</summary>
    public Uri Address { get; }

    /// <summary>Why tests can't have a server here; null when they can.</summary>
    public static string? WhyMissing => Configured is not null || FindProgram() is not null
        ? null
        : $"NATS is not installed (apt-get install nats-server). {AddressVariable} names no server either.";

    private string ConfigurationFile => Path.Combine(_folder!, "server.conf");

    private static string? Configured => Environment.GetEnvironmentVariable(AddressVariable) is { Length: > 0 } address ? address : null;

    /// <summary>Takes the server that the environment names, or starts the installed one.</summary>
    /// <exception cref="ServerStartException">There is none, or it did not start.</exception>
    public static async Task<NatsServer> ConnectOrStartAsync()
    {
        if (Configured is { } configured)
            return new NatsServer(new Uri(configured), folder: null);
        return await StartOwnAsync();
    }

    /// <summary>Starts the installed server as a child process, whatever the environment says.</summary>
    /// <param name="configuration">Settings as in its configuration file, beside those that it gets here; none by default.</param>
    /// <exception cref="ServerStartException">It is not installed, or did not start.</exception>
    public static async Task<NatsServer> StartOwnAsync(string configuration = "")
    {
        var address = new Uri(string.Create(CultureInfo.InvariantCulture, $"nats://127.0.0.1:{FreePort.Take(1)[0]}"));
        var server = new NatsServer(address, Directory.CreateTempSubdirectory("batchkit-nats-").FullName);
        await File.WriteAllTextAsync(server.ConfigurationFile, configuration);
        return await ServerStart.OrDisposeAsync(server, static server => server.StartAsync());
    }

    /// <summary>Starts it again, on the same port and data, after <see cref="KillAsync"/>; completes when it takes connections.</summary>
    public Task StartAsync()
    {
        var program = FindProgram() ?? throw new ServerStartException("NATS is not installed.");
        string[] arguments = ["--addr", Address.Host, "--port", $"{Address.Port}", "--jetstream", "--store_dir", _folder!, "--config", ConfigurationFile];
        var process = _process = ServerProcess.Start(program, arguments, new Dictionary<string, string>());
        return process.WaitUntilAsync(() => Task.FromResult(process.Output.Contains("Server is ready", StringComparison.Ordinal)), "NATS");
    }

    /// <summary>Gives it other settings while it runs and keeps its connections; completes when it has them.</summary>
    public async Task ConfigureAsync(string configuration)
    {
        const string reloaded = "Reloaded server configuration";
        var process = _process!;
        var before = process.Output.Split(reloaded).Length;
        await File.WriteAllTextAsync(ConfigurationFile, configuration);
        Signal.Send(process.Id, Signal.HangUp);
        await process.WaitUntilAsync(() => Task.FromResult(process.Output.Split(reloaded).Length > before), "NATS");
    }

    /// <summary>Kills it (SIGKILL); completes when it has ended.</summary>
    public Task KillAsync() => EndAsync(Signal.Kill);

    /// <summary>Stops it (SIGTERM), so that it writes all it knows; completes when it has ended.</summary>
    public Task StopAsync() => EndAsync(Signal.Terminate);

    /// <summary>Deletes what it has stored, after <see cref="KillAsync"/>.</summary>
    public void DeleteData() => Directory.Delete(Path.Combine(_folder!, "jetstream"), recursive: true);

    private async Task EndAsync(int signal)
    {
        if (_process is not { } process)
            return;
        Signal.Send(process.Id, signal);
        await process.WaitForExitAsync(StopLimit);
        process.Dispose();
        _process = null;
    }

    /// <inheritdoc/>
    public async ValueTask DisposeAsync()
    {
        if (_folder is null)
            return;
        await KillAsync();
        Directory.Delete(_folder, recursive: true);
    }

    private static string? FindProgram() =>
        InstalledProgram.Find("nats-server") ?? ProgramFolders.Select(folder => Path.Combine(folder, "nats-server")).FirstOrDefault(File.Exists);
}

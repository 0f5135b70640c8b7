using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.Nats;

/// <summary>A NATS server with JetStream for tests: one from the environment, or the installed one as a child process with a data folder of its own.</summary>
/// <remarks>Dispose it: that kills the process and deletes its data. The service that Debian's package starts on port 4222 is never used.</remarks>
public sealed class NatsServer : InstalledServer
{
    /// <summary>The environment variable with the address of a running server with JetStream, as <c>nats://host:port</c>.</summary>
    public const string AddressVariable = "BATCHKIT_TEST_NATS";

    private const string Program = "nats-server";

    private NatsServer(Uri address, string? folder) : base("NATS", address, folder) { }

    /// <summary>Why tests can't have a server here; null when they can.</summary>
    public static string? WhyMissing => FindReason(AddressVariable, InstalledProgram.Find(Program) is not null ? null : "NATS is not installed (apt-get install nats-server).");

    private string ConfigurationFile => Path.Combine(Folder, "server.conf");

    /// <summary>Takes the server that the environment names, or starts the installed one.</summary>
    /// <exception cref="ServerStartException">There is none, or it did not start.</exception>
    public static async Task<NatsServer> ConnectOrStartAsync() => FindConfigured(AddressVariable) is { } address ? new NatsServer(address, folder: null) : await StartOwnAsync();

    /// <summary>Starts the installed server as a child process, whatever the environment says.</summary>
    /// <param name="configuration">Settings as in its configuration file, beside those that it gets here; none by default.</param>
    /// <exception cref="ServerStartException">It is not installed, or did not start.</exception>
    public static async Task<NatsServer> StartOwnAsync(string configuration = "")
    {
        var server = new NatsServer(FreeAddress("nats"), Directory.CreateTempSubdirectory("batchkit-nats-").FullName);
        await File.WriteAllTextAsync(server.ConfigurationFile, configuration);
        return await ServerStart.OrDisposeAsync(server, static server => server.StartAsync());
    }

    /// <summary>Starts it again, on the same port and data, after <see cref="KillAsync"/>; completes when it takes connections.</summary>
    public Task StartAsync() => StartAsync(
        Program, ["--addr", Address.Host, "--port", $"{Address.Port}", "--jetstream", "--store_dir", Folder, "--config", ConfigurationFile], ready: "Server is ready");

    /// <summary>Gives it other settings while it runs and keeps its connections; completes when it has them.</summary>
    public async Task ConfigureAsync(string configuration)
    {
        const string reloaded = "Reloaded server configuration";
        var process = Process!;
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
    public void DeleteData() => Directory.Delete(Path.Combine(Folder, "jetstream"), recursive: true);
}
